//! Puts action requests to the user of the client.

use deepagents_core::interrupt::{ActionRequest, Decision};
use rmcp::model::{
    CancelledNotificationParam, ClientResult, ElicitRequest, ElicitResult, ElicitationAction, ErrorData,
    ProtocolVersion, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext, ServiceError};
use rmcp::{RoleServer, model::RequestId};

use super::{AgentServer, approvals, failed};

/// The result of asking.
pub(super) enum Decisions {
    /// All requests are decided.
    Made(Vec<(String, Decision)>),
    /// The client must repeat the call with the responses.
    Later,
}

impl AgentServer {
    /// Whether the client's user can be asked.
    pub(super) fn elicits(&self, context: &RequestContext<RoleServer>) -> bool {
        self.asks && context.client_capabilities().is_some_and(|client| client.elicitation.is_some())
    }

    /// Has action requests decided by the client's user. Rejects them if the user cannot be asked or they are too long
    /// to show.
    pub(super) async fn decided(
        &self,
        questions: &[ActionRequest],
        context: &RequestContext<RoleServer>,
    ) -> Result<Decisions, ErrorData> {
        let stateless = context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        if !self.elicits(context) {
            return Ok(Decisions::Made(approvals::reject_all(questions, self.asks)));
        }
        if stateless && questions.iter().any(|question| approvals::too_long(question).is_none()) {
            return Ok(Decisions::Later);
        }
        // One at a time.
        let mut decisions = Vec::new();
        for question in questions {
            let decision = match approvals::too_long(question) {
                Some(refusal) => refusal,
                None => approvals::decision(question, &asked(question, context).await?),
            };
            decisions.push((question.id.clone(), decision));
        }
        Ok(Decisions::Made(decisions))
    }
}

/// Sends an elicitation request. Cancels it if the call is cancelled.
async fn asked(question: &ActionRequest, context: &RequestContext<RoleServer>) -> Result<ElicitResult, ErrorData> {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(approvals::form(question)));
    let sent = context.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
    let handle = sent.map_err(|error| failed(&error))?;
    let id = handle.id.clone();
    let answer = tokio::select! {
        answer = handle.await_response() => answer,
        () = context.ct.cancelled() => {
            withdraw(id, context).await;
            return Err(failed(&"the call was cancelled"));
        }
    };
    match answer {
        Ok(ClientResult::ElicitResult(answer)) => Ok(answer),
        // If the client cannot ask after all, nobody has agreed.
        Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => {
            Ok(ElicitResult::new(ElicitationAction::Cancel))
        }
        Err(error) => Err(failed(&error)),
    }
}

async fn withdraw(id: RequestId, context: &RequestContext<RoleServer>) {
    let mut params = CancelledNotificationParam::new(Some(id), Some("the call was cancelled".to_owned()));
    params.meta = None;
    // A client that has disconnected has closed its form already.
    let _ = context.peer.notify_cancelled(params).await;
}
