//! A person decides before a call is made.

use deepagents_core::error::{Error, Result};
use deepagents_core::interrupt::{ActionRequest, ActionRequestChange, ActionRequests, ActionReview, Decision};
use deepagents_core::message::{Block, ToolCall};
use deepagents_core::middleware::{HookOutput, Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::run::Context;
use deepagents_core::tool::CallId;

use crate::approvals::{InterruptOn, InterruptPolicy};
use crate::channels::{CallReviews, CallVerdict};

/// Asks a person before calls are made. All gated calls of a turn are asked about before any call of the turn is made; a
/// gated call that comes another way, such as with the input, is asked about when it is its turn.
///
/// Given to a builder beside `interrupt_on`, both hold. Approved calls run; an edited one runs in the place of the model's, which stays in the conversation with a note; a
/// rejected or answered one does not run.
#[derive(Clone, Debug)]
pub struct HumanInTheLoop {
    approvals: InterruptPolicy,
}

impl HumanInTheLoop {
    /// Asks about these calls.
    pub fn new(approvals: InterruptPolicy) -> Self {
        Self { approvals }
    }

    /// What it asks about.
    pub(crate) fn approvals(&self) -> &InterruptPolicy {
        &self.approvals
    }

    fn question(&self, id: &CallId, call: &ToolCall, ask: &InterruptOn, cx: &Context) -> ActionRequest {
        let now = cx.clock().now();
        let question = ActionRequest::about(id, &call.name, call.args.clone(), now.to_string())
            .text(ask.question(call, cx))
            .allowed(ask.allowed.clone())
            .tools(cx.tool_names());
        // A time that is out of range never comes.
        match ask.expires_after.and_then(|after| now.checked_add(after).ok()) {
            Some(at) => question.expires_at(at.to_string()),
            None => question,
        }
    }
}

impl Middleware for HumanInTheLoop {
    fn name(&self) -> &str {
        "HumanInTheLoop"
    }

    async fn after_model(&self, cx: &Context) -> Result<HookOutput> {
        let calls = cx.open_calls();
        let questions: Vec<ActionRequestChange> = calls
            .iter()
            .filter_map(|(id, call)| {
                let ask = self.approvals.about(call, cx).filter(|_| !is_settled(id, cx))?;
                Some(ActionRequestChange::Request(Box::new(self.question(id, call, ask, cx))))
            })
            .collect();
        Ok(if questions.is_empty() { HookOutput::next() } else { HookOutput::set::<ActionRequests>(questions) })
    }

    async fn wrap_tool_call(&self, mut request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        let asked = request.cx.get::<ActionRequests>().remove(&request.id().to_string());
        let about = self.approvals.about(&request.call, &request.cx).filter(|_| !is_settled(request.id(), &request.cx));
        let decision = match (asked, about) {
            (Some(ActionReview { answer: Some(decision), .. }), _) => decision,
            (_, Some(ask)) => {
                let text = ask.question(&request.call, &request.cx);
                request.cx.interrupt(text, ask.allowed.clone())?
            }
            (_, None) => return next.run(request).await,
        };
        let name = request.call.name.clone();
        match decision {
            Decision::Edit { edited_action } => {
                let note = format!(
                    "A person changed this call before it was made, on purpose; do not make your own again. Made instead: {} with {}",
                    edited_action.name, edited_action.args
                );
                request.tool = request.cx.tool(&edited_action.name).cloned();
                request.call =
                    ToolCall { id: request.call.id, name: edited_action.name, args: edited_action.args, native: None };
                let mut response = next.run(request).await?;
                response.content.insert(0, Block::text(note));
                Ok(response)
            }
            Decision::Reject { message } => {
                let reason = message.filter(|m| !m.trim().is_empty()).map(|m| format!(": {m}")).unwrap_or_default();
                Ok(ToolResponse::error(format!(
                    "A person rejected the call of {name}{reason}. It was not made; make it again only if asked to."
                )))
            }
            Decision::Respond { message } => Ok(ToolResponse::text(message)),
            Decision::Approve => next.run(request).await,
            other => Err(Error::Input(format!("a decision to {} a call is not known here", other.kind()))),
        }
    }
}

/// Whether hooks have said that a call is made, or is not: nobody is asked about it then.
fn is_settled(id: &CallId, cx: &Context) -> bool {
    let reviews = cx.get::<CallReviews>();
    let verdict = reviews.calls.get(&id.to_string()).and_then(|review| review.verdict.as_ref());
    matches!(verdict, Some(CallVerdict::Allow | CallVerdict::Deny(_)))
}
