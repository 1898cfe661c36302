//! Calls and their results. A result belongs to the answer that it stands behind, as providers give the same ids again
//! in later answers.

use deepagents_core::message::{AssistantMessage, Block, Message};
use deepagents_core::state::State;
use serde_json::Value;

/// A call of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// Its place among the calls of the answer.
    pub(crate) index: u32,
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    /// None where they cannot be read.
    pub(crate) args: Option<&'a Value>,
}

/// The calls of an answer, malformed ones included, in order.
pub(crate) fn calls(answer: &AssistantMessage) -> impl Iterator<Item = Call<'_>> {
    let all = answer.content.iter().filter_map(|block| match block {
        Block::ToolCall(call) => Some((&*call.id, &*call.name, Some(&call.args))),
        Block::InvalidToolCall(call) => Some((&*call.id, &*call.name, None)),
        _ => None,
    });
    (0..).zip(all).map(|(index, (id, name, args))| Call { index, id, name, args })
}

/// The last answer, and its calls that have no result, if there are any.
pub(crate) fn open_calls(state: &State) -> Option<(&AssistantMessage, Vec<Call<'_>>)> {
    let mut results = Vec::new();
    for message in state.messages().iter().rev() {
        match &**message {
            Message::Tool(result) => results.push(&*result.call_id),
            Message::Assistant(answer) => {
                let mut open: Vec<Call<'_>> = calls(answer).collect();
                open.retain(|call| take(&mut results, call.id).is_none());
                return (!open.is_empty()).then_some((answer, open));
            }
            _ => {}
        }
    }
    None
}

/// Takes one of the ids of results that is this one.
fn take<'a>(results: &mut Vec<&'a str>, id: &str) -> Option<&'a str> {
    let at = results.iter().position(|result| *result == id)?;
    Some(results.swap_remove(at))
}

/// Leaves out the calls that messages which come next have results for.
pub(crate) fn without_answered<'a>(open: Vec<Call<'a>>, next: &[&Message]) -> Vec<Call<'a>> {
    let behind_these = next.iter().take_while(|message| message.as_assistant().is_none());
    let mut results: Vec<&str> =
        behind_these.filter_map(|message| message.as_tool()).map(|result| &*result.call_id).collect();
    open.into_iter().filter(|call| take(&mut results, call.id).is_none()).collect()
}
