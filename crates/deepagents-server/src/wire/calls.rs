//! Tool calls and their results. A result belongs to the answer that precedes it, because providers reuse ids in later
//! answers.

use deepagents_core::message::{AssistantMessage, Block, Message};
use deepagents_core::state::State;
use serde_json::Value;

/// A tool call of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// Its index among the calls of the answer.
    pub(crate) index: u32,
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    /// The arguments, or `None` if they are malformed.
    pub(crate) args: Option<&'a Value>,
}

/// Returns the calls of an answer in order, including malformed ones.
pub(crate) fn calls(answer: &AssistantMessage) -> impl Iterator<Item = Call<'_>> {
    let all = answer.content.iter().filter_map(|block| match block {
        Block::ToolCall(call) => Some((&*call.id, &*call.name, Some(&call.args))),
        Block::InvalidToolCall(call) => Some((&*call.id, &*call.name, None)),
        _ => None,
    });
    (0..).zip(all).map(|(index, (id, name, args))| Call { index, id, name, args })
}

/// Returns the last answer with its calls that have no result, or `None` if there are no such calls.
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

/// Removes one occurrence of an id from the ids of calls or results that have no counterpart yet.
pub(crate) fn take<'a>(ids: &mut Vec<&'a str>, id: &str) -> Option<&'a str> {
    let at = ids.iter().position(|known| *known == id)?;
    Some(ids.swap_remove(at))
}

/// Leaves out the calls that have a result in the messages that follow.
pub(crate) fn without_answered<'a>(open: Vec<Call<'a>>, next: &[&Message]) -> Vec<Call<'a>> {
    let behind_these = next.iter().take_while(|message| message.as_assistant().is_none());
    let mut results: Vec<&str> =
        behind_these.filter_map(|message| message.as_tool()).map(|result| &*result.call_id).collect();
    open.into_iter().filter(|call| take(&mut results, call.id).is_none()).collect()
}
