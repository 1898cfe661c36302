//! Decisions that a person made before abandoning the pending questions, reported to the model with the next message.

use std::collections::BTreeSet;

use deepagents_core::interrupt::{ActionRequest, Decision};
use deepagents_core::message::{Block, Message, ToolMessage};
use deepagents_core::state::State;

use crate::middleware::approval::rejection;

/// Builds the messages that tell the model about decisions on tool calls that a person then abandoned together with the
/// other pending questions. None of the calls was executed.
///
/// A call of the last answer gets a result; any other call, such as a sub-agent's, gets a remark.
///
/// ```
/// use deepagents::{ActionRequest, Decision, Message, RunInput, State, left_decisions};
/// fn goes_on(thread: &str, state: &State, decided: Vec<(ActionRequest, Decision)>) -> RunInput {
///     let told = left_decisions(state, decided);
///     RunInput::messages(told.into_iter().chain([Message::user("Something else.")])).thread(thread)
/// }
/// ```
pub fn left_decisions(state: &State, decided: impl IntoIterator<Item = (ActionRequest, Decision)>) -> Vec<Message> {
    let mut answered = BTreeSet::new();
    let message = |(request, decision): (ActionRequest, Decision)| {
        // A call that asked more than once gets one result.
        let call = open_call(state, &request).filter(|id| answered.insert(id.clone()));
        let (text, is_error) = in_words(&request, &decision);
        match call {
            Some(call_id) => {
                let content = vec![Block::text(text)];
                Message::Tool(ToolMessage { call_id, name: request.tool, content, is_error, ..ToolMessage::default() })
            }
            None => {
                let of =
                    request.agent.map(|agent| format!("About a call of the sub-agent {agent}: ")).unwrap_or_default();
                Message::harness(format!("{of}{text}"))
            }
        }
    };
    decided.into_iter().map(message).collect()
}

/// Returns the model's id of the call in question, if it belongs to the last answer and has no result yet.
fn open_call(state: &State, request: &ActionRequest) -> Option<String> {
    if !request.call.path.is_empty() {
        return None;
    }
    let messages = state.messages();
    let at = messages.last_assistant()?;
    let mut calls = messages.get(at)?.as_assistant()?.content.iter().filter_map(|block| match block {
        Block::ToolCall(call) => Some((&call.id, &call.name)),
        Block::InvalidToolCall(call) => Some((&call.id, &call.name)),
        _ => None,
    });
    let (id, name) = calls.nth(usize::try_from(request.call.index).ok()?)?;
    let is_answered = messages.results_of(at).any(|result| result.call_id == *id);
    (*name == request.tool && !is_answered).then(|| id.clone())
}

/// Returns the text of a decision, and whether its result counts as an error, that is, not as the tool's own output.
fn in_words(request: &ActionRequest, decision: &Decision) -> (String, bool) {
    const STOPPED: &str = "and stopped before the other calls were decided on. It was not made.";
    let name = &request.tool;
    match decision {
        Decision::Respond { message } if request.call.path.is_empty() => (message.clone(), false),
        Decision::Respond { message } => (format!("User answered the call of {name}: {message}"), true),
        Decision::Reject { message } => (rejection(name, message.as_deref()), true),
        Decision::Edit { edited_action } => {
            let args = &edited_action.args;
            (format!("User changed the call of {name} to {} {args}, {STOPPED}", edited_action.name), true)
        }
        _ => (format!("User approved the call of {name}, {STOPPED}"), true),
    }
}
