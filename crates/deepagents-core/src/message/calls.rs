//! Dangling tool calls, and validation of histories.

use std::sync::Arc;

use super::{Block, InvalidToolCall, Message, Messages, ToolCall};

/// Error for a history that providers reject: a call without a result, or a result without a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the history cannot be sent to a model: {0}")]
pub struct HistoryError(pub(crate) String);

/// A call of the last answer without a result.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// Index among the calls of the turn.
    pub(crate) index: u32,
    pub(crate) call: PendingCall,
}

#[derive(Clone, Debug)]
pub(crate) enum PendingCall {
    Valid(ToolCall),
    Invalid(InvalidToolCall),
}

impl PendingCall {
    pub(crate) fn provider_call_id(&self) -> &str {
        match self {
            Self::Valid(call) => &call.id,
            Self::Invalid(call) => &call.id,
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Valid(call) => &call.name,
            Self::Invalid(call) => &call.name,
        }
    }
}

/// Returns the calls of the last answer that have no result, in order.
pub(crate) fn pending(messages: &Messages) -> Vec<Pending> {
    messages.last_assistant().map_or_else(Vec::new, |at| pending_at(messages, at))
}

/// Returns the calls of the answer at a position that have no result, in order.
pub(crate) fn pending_at(messages: &Messages, at: usize) -> Vec<Pending> {
    let Some(answer) = messages.get(at).and_then(|m| m.as_assistant()) else { return Vec::new() };
    let mut answered: Vec<&str> = messages.results_of(at).map(|result| &*result.call_id).collect();
    let calls = answer.content.iter().filter_map(|block| match block {
        Block::ToolCall(call) => Some(PendingCall::Valid(call.clone())),
        Block::InvalidToolCall(call) => Some(PendingCall::Invalid(call.clone())),
        _ => None,
    });
    (0..)
        .zip(calls)
        .filter(|(_, call)| {
            let result = answered.iter().position(|id| *id == call.provider_call_id());
            result.map(|at| answered.swap_remove(at)).is_none()
        })
        .map(|(index, call)| Pending { index, call })
        .collect()
}

/// Returns the results directly after the answer at a position that can be moved, each with the index of its call.
pub(crate) fn results_at(messages: &Messages, at: usize) -> Vec<(u32, Arc<Message>)> {
    let Some(answer) = messages.get(at).and_then(|m| m.as_assistant()) else { return Vec::new() };
    let mut calls: Vec<(u32, &str)> = (0..).zip(answer.call_ids()).collect();
    let results = messages.tail(at + 1).map_while(|m| m.as_tool().filter(|r| !r.id.is_empty()).map(|r| (r, m)));
    results
        .filter_map(|(result, message)| {
            let call = calls.iter().position(|(_, id)| *id == result.call_id)?;
            Some((calls.remove(call).0, message.clone()))
        })
        .collect()
}

/// Returns an error if a message stands between the calls of the answer at a position and their results.
pub(crate) fn check_results(messages: &Messages, at: usize) -> Result<(), HistoryError> {
    let Some(answer) = messages.get(at).and_then(|m| m.as_assistant()) else { return Ok(()) };
    let mut waiting: Vec<&str> = answer.call_ids().collect();
    for message in messages.tail(at + 1) {
        if waiting.is_empty() {
            break;
        }
        let Some(result) = message.as_tool() else {
            return Err(HistoryError(format!(
                "a message was put between the calls {} and their results; add it before the model is asked, or answer \
                 the calls with it",
                waiting.join(", ")
            )));
        };
        if let Some(at) = waiting.iter().position(|id| *id == result.call_id) {
            waiting.swap_remove(at);
        }
    }
    Ok(())
}

/// Returns an error if a message stands between the calls of the last answer and their results.
pub(crate) fn check_last_results(messages: &Messages) -> Result<(), HistoryError> {
    messages.last_assistant().map_or(Ok(()), |at| check_results(messages, at))
}

/// Returns an error if providers would reject the history: every call must have exactly one result, directly after the
/// answer that made it, and every result must have a call. The first `from` messages have been checked before.
pub(crate) fn check(messages: &Messages, from: usize) -> Result<(), HistoryError> {
    if messages.is_empty() {
        return Err(HistoryError("there is no message; give the run one".to_owned()));
    }
    let mut waiting: Vec<&str> = Vec::new();
    for (position, message) in (from..).zip(messages.tail(from)) {
        if let Message::Tool(result) = &**message {
            match waiting.iter().position(|id| *id == result.call_id) {
                Some(at) => {
                    waiting.swap_remove(at);
                }
                None => {
                    return Err(HistoryError(format!(
                        "message {position} is a result of `{}`, but no earlier call is waiting for one",
                        result.call_id
                    )));
                }
            }
            continue;
        }
        refuse_waiting(&waiting, position)?;
        if let Message::Assistant(answer) = &**message {
            waiting.extend(answer.call_ids());
        }
    }
    refuse_waiting(&waiting, messages.len())
}

fn refuse_waiting(waiting: &[&str], position: usize) -> Result<(), HistoryError> {
    match waiting {
        [] => Ok(()),
        ids => Err(HistoryError(format!(
            "before message {position} the calls {} have no result; the PatchToolCalls middleware answers such calls",
            ids.join(", ")
        ))),
    }
}
