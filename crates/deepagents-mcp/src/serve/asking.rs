//! Asking whoever uses the client.

use deepagents_core::interrupt::{ActionRequest, Decision};
use rmcp::model::{
    CancelledNotificationParam, ClientResult, ElicitRequest, ElicitResult, ElicitationAction, ErrorData,
    ProtocolVersion, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext, ServiceError};
use rmcp::{RoleServer, model::RequestId};

use super::{AgentServer, approvals, failed};

/// What comes of asking.
pub(super) enum Decisions {
    /// All of it is decided.
    Made(Vec<(String, Decision)>),
    /// The client makes the call again with the answers.
    Later,
}

impl AgentServer {
    /// Whether there is somebody to ask.
    pub(super) fn elicits(&self, context: &RequestContext<RoleServer>) -> bool {
        self.asks && context.client_capabilities().is_some_and(|client| client.elicitation.is_some())
    }

    /// Has questions decided: by whoever uses the client, where there is such a person and the questions can be shown.
    pub(super) async fn decided(
        &self,
        questions: &[ActionRequest],
        context: &RequestContext<RoleServer>,
    ) -> Result<Decisions, ErrorData> {
        let stateless = context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        if !self.elicits(context) {
            return Ok(Decisions::Made(approvals::nobody(questions)));
        }
        if stateless && questions.iter().any(|question| approvals::too_long(question).is_none()) {
            return Ok(Decisions::Later);
        }
        // One question after the other.
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

/// Asks a question. The client is told where nobody waits for the answer any more.
async fn asked(question: &ActionRequest, context: &RequestContext<RoleServer>) -> Result<ElicitResult, ErrorData> {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(approvals::form(question)));
    let sent = context.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
    let handle = sent.map_err(|error| failed(&error))?;
    let id = handle.id.clone();
    let answer = tokio::select! {
        answer = handle.await_response() => answer,
        () = context.ct.cancelled() => {
            withdraw(id, context).await;
            return Err(ErrorData::internal_error("the call was cancelled", None));
        }
    };
    match answer {
        Ok(ClientResult::ElicitResult(answer)) => Ok(answer),
        // A client that cannot ask after all has nobody who agrees.
        Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => {
            Ok(ElicitResult::new(ElicitationAction::Cancel))
        }
        Err(error) => Err(failed(&error)),
    }
}

async fn withdraw(id: RequestId, context: &RequestContext<RoleServer>) {
    let mut params = CancelledNotificationParam::new(Some(id), Some("the call was cancelled".to_owned()));
    params.meta = None;
    // A client that has gone has closed its question itself.
    let _ = context.peer.notify_cancelled(params).await;
}
