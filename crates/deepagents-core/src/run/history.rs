//! Which calls wait for results, and whether a history is one that providers accept.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::message::{Block, InvalidToolCall, Message, Messages, ToolCall};

/// A call of the last answer that has no result.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// Position among the calls of the turn.
    pub(crate) index: u32,
    pub(crate) call: PendingCall,
}

#[derive(Clone, Debug)]
pub(crate) enum PendingCall {
    Valid(ToolCall),
    Invalid(InvalidToolCall),
}

impl PendingCall {
    pub(crate) fn wire_id(&self) -> &str {
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

/// The calls of the last answer that have no result, in order.
pub(crate) fn pending(messages: &Messages) -> Vec<Pending> {
    let Some(at) = messages.last_assistant() else { return Vec::new() };
    let Some(answer) = messages.get(at).and_then(|m| m.as_assistant()) else { return Vec::new() };
    let mut answered: HashMap<&str, usize> = HashMap::new();
    for result in messages.tail(at + 1).filter_map(|m| m.as_tool()) {
        *answered.entry(&result.call_id).or_default() += 1;
    }
    let calls = answer.content.iter().filter_map(|block| match block {
        Block::ToolCall(call) => Some(PendingCall::Valid(call.clone())),
        Block::InvalidToolCall(call) => Some(PendingCall::Invalid(call.clone())),
        _ => None,
    });
    (0..)
        .zip(calls)
        .filter(|(_, call)| match answered.get_mut(call.wire_id()) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        })
        .map(|(index, call)| Pending { index, call })
        .collect()
}

/// Refuses a history that providers refuse: every call has exactly one result, right after the answer that made it,
/// and every result has a call.
pub(crate) fn check(messages: &Messages) -> Result<()> {
    let mut waiting: Vec<&str> = Vec::new();
    let mut tail_seen = false;
    for (position, message) in messages.iter().enumerate() {
        if let Message::Tool(result) = &**message {
            match waiting.iter().position(|id| *id == result.call_id) {
                Some(at) => {
                    waiting.swap_remove(at);
                }
                None => {
                    return Err(Error::History(format!(
                        "message {position} is a result of `{}`, but no call before it waits for one",
                        result.call_id
                    )));
                }
            }
            continue;
        }
        refuse_waiting(&waiting, position)?;
        tail_seen = true;
        if let Message::Assistant(answer) = &**message {
            waiting.extend(answer.call_ids());
        }
    }
    refuse_waiting(&waiting, messages.len())?;
    if tail_seen { Ok(()) } else { Err(Error::History("there is no message; give the run one".to_owned())) }
}

fn refuse_waiting(waiting: &[&str], position: usize) -> Result<()> {
    match waiting {
        [] => Ok(()),
        ids => Err(Error::History(format!(
            "before message {position} the calls {} have no result; the PatchToolCalls middleware answers such calls",
            ids.join(", ")
        ))),
    }
}
