//! The turns of a conversation in reverse order.

use std::borrow::Cow;

use deepagents_core::message::{Author, Block, Message, Messages, ToolMessage};
use serde_json::Value;

/// A turn with its calls.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) calls: Vec<Call<'a>>,
}

/// A call and its result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) name: &'a str,
    pub(super) args: Args<'a>,
    pub(super) result: Option<&'a ToolMessage>,
}

/// Arguments as JSON, or as raw text if they are invalid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Args<'a> {
    Json(&'a Value),
    Raw(&'a str),
}

/// Iterates over the turns with calls since the last message of a person, the latest first.
pub(super) fn latest_first(messages: &Messages) -> impl Iterator<Item = Turn<'_>> {
    let mut at = messages.len();
    std::iter::from_fn(move || {
        let mut results: Vec<&ToolMessage> = Vec::new();
        while let Some(before) = at.checked_sub(1) {
            at = before;
            match &**messages.get(at)? {
                Message::Tool(result) => results.push(result),
                Message::User(said) if said.author == Author::Harness => {}
                Message::Assistant(answer) if answer.has_calls() => {
                    let with_result = |name, args, id: &str| {
                        let result = results.iter().find(|result| result.call_id == id).copied();
                        Call { name, args, result }
                    };
                    let calls = answer.content.iter().filter_map(|block| match block {
                        Block::ToolCall(call) => Some(with_result(&call.name, Args::Json(&call.args), &call.id)),
                        Block::InvalidToolCall(call) => Some(with_result(&call.name, Args::Raw(&call.raw), &call.id)),
                        _ => None,
                    });
                    return Some(Turn { calls: calls.collect() });
                }
                // A message of a person, or an answer without calls.
                _ => {
                    at = 0;
                    return None;
                }
            }
        }
        None
    })
}

impl Turn<'_> {
    /// Returns `true` if both turns made the same calls with the same results, in any order.
    pub(super) fn is_same(&self, other: &Turn<'_>) -> bool {
        if self.calls.len() != other.calls.len() {
            return false;
        }
        let mut unmatched = other.calls.clone();
        self.calls.iter().all(|call| {
            let at = unmatched.iter().position(|other| call.is_same(other));
            at.map(|at| unmatched.remove(at)).is_some()
        })
    }

    /// Returns `true` if every call failed.
    pub(super) fn failed(&self) -> bool {
        self.calls.iter().all(|call| call.result.is_some_and(|result| result.is_error))
    }

    /// Returns the names of the tools without duplicates.
    pub(super) fn tools(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for call in &self.calls {
            if !names.iter().any(|name| name == call.name) {
                names.push(call.name.to_owned());
            }
        }
        names
    }
}

impl Call<'_> {
    fn is_same(&self, other: &Call<'_>) -> bool {
        self.name == other.name
            && self.args == other.args
            && match (self.result, other.result) {
                (Some(a), Some(b)) => same_result(a, b),
                (None, None) => true,
                _ => false,
            }
    }
}

/// Returns `true` if two results are the same. The text of a result that was moved to a file contains its call id,
/// which is ignored.
fn same_result(a: &ToolMessage, b: &ToolMessage) -> bool {
    a.is_error == b.is_error
        && a.content.len() == b.content.len()
        && a.content.iter().zip(&b.content).all(|(x, y)| match (x.as_text(), y.as_text()) {
            (Some(x), Some(y)) => x == y || anonymous(x, &a.call_id) == anonymous(y, &b.call_id),
            _ => x == y,
        })
}

fn anonymous<'a>(text: &'a str, call: &str) -> Cow<'a, str> {
    if !call.is_empty() && text.contains(call) { text.replace(call, "").into() } else { text.into() }
}
