//! Tools of the agent that are offered directly.

use deepagents_core::error::Error;
use deepagents_core::interrupt::{ActionReview, DecisionRecord};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, InputRequiredResult,
};
use rmcp::service::RequestContext;
use serde_json::Value;

use super::asking::Decisions;
use super::{AgentServer, approvals, failed, invalid, result, task};

/// How many rounds of approvals a call may need.
const MAX_ROUNDS: usize = 20;

impl AgentServer {
    /// Calls a tool of the agent, with the approvals that it needs.
    pub(super) async fn own(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let args = Value::Object(request.arguments.unwrap_or_default());
        let mut reviews = match &request.request_state {
            // Decisions in the request do not count if nobody can be asked.
            Some(state) if self.elicits(&context) => parse_reviews(state)?,
            _ => Vec::new(),
        };
        let open: Vec<_> = open(&reviews).map(|review| review.request.clone()).collect();
        decide(&mut reviews, approvals::decisions(&open, &request.input_responses.unwrap_or_default()));
        for _ in 0..MAX_ROUNDS {
            // Undecided requests are raised again by the call.
            reviews.retain(|review| review.decision.is_some());
            let called = tokio::select! {
                called = self.agent.call_reviewed_tool(&request.name, args.clone(), None, &reviews) => called,
                () = context.ct.cancelled() => return Err(failed(&"the call was cancelled")),
            };
            let questions = match called {
                Ok(output) => return Ok(result(&output).into()),
                Err(Error::Interrupted(waiting)) => waiting.action_requests().to_vec(),
                Err(error) => return Ok(CallToolResult::error(vec![ContentBlock::text(error.to_string())]).into()),
            };
            reviews.extend(questions.iter().map(|request| ActionReview { request: request.clone(), decision: None }));
            match self.decided(&questions, &context).await? {
                Decisions::Made(decisions) => decide(&mut reviews, decisions),
                Decisions::Later => {
                    // The client returns the requests with the responses, so no state of a waiting call is stored here.
                    let state = serde_json::to_string(&reviews).unwrap_or_default();
                    let wanted = InputRequiredResult::new(Some(approvals::requests(&questions)), Some(state));
                    return Ok(CallToolResponse::InputRequired(wanted));
                }
            }
        }
        let words = "Error: the call asks again and again; it was not made";
        Ok(CallToolResult::error(vec![ContentBlock::text(words)]).into())
    }
}

/// Parses the reviews of a repeated call. A decision applies only if the call raises the same request again.
fn parse_reviews(state: &str) -> Result<Vec<ActionReview>, ErrorData> {
    let unknown = |_| invalid("the state of the request was not issued here");
    let reviews: Vec<ActionReview> = serde_json::from_str(state).map_err(unknown)?;
    for name in reviews.iter().flat_map(|review| review.request.call.path.first()) {
        task::checked(name)?;
    }
    Ok(reviews)
}

fn open(reviews: &[ActionReview]) -> impl Iterator<Item = &ActionReview> {
    reviews.iter().filter(|review| review.decision.is_none())
}

fn decide(reviews: &mut [ActionReview], decisions: Vec<(String, deepagents_core::interrupt::Decision)>) {
    for (id, decision) in decisions {
        if let Some(review) = reviews.iter_mut().find(|review| review.request.id == id) {
            review.decision = Some(DecisionRecord::from(decision));
        }
    }
}
