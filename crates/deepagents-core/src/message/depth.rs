//! How deep JSON may be nested: readers of JSON take a depth of 128, and what is stored lies within records.

use serde_json::Value;

use super::{Block, Message, MessageOp, ToolMessage};

/// How deep the arguments of a call may be nested.
pub(crate) const DEEPEST_ARGUMENTS: usize = 64;

/// How deep any other value may be nested that is stored or told. Arguments fit within, also as a part of a question.
pub(crate) const DEEPEST: usize = 96;

/// Whether a value is nested deeper than so many levels.
pub(crate) fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| is_deeper(item, levels - 1)),
        Value::Object(fields) => levels == 0 || fields.values().any(|field| is_deeper(field, levels - 1)),
        _ => false,
    }
}

impl Message {
    /// Whether a value in it is nested deeper than what is stored may be.
    pub(crate) fn is_too_deep(&self) -> bool {
        match self {
            Self::Tool(result) => result.is_too_deep(),
            other => other.content().iter().any(Block::is_too_deep),
        }
    }
}

impl ToolMessage {
    /// Whether a value in it, such as its artifact, is nested deeper than what is stored may be.
    pub(crate) fn is_too_deep(&self) -> bool {
        let artifact = self.artifact.as_ref().is_some_and(|value| is_deeper(value, DEEPEST));
        artifact || self.content.iter().any(Block::is_too_deep)
    }
}

impl Block {
    fn is_too_deep(&self) -> bool {
        let args = if let Self::ToolCall(call) = self { Some(&call.args) } else { None };
        args.is_some_and(|value| is_deeper(value, DEEPEST))
            || self.native().is_some_and(|item| is_deeper(item.value(), DEEPEST))
    }
}

impl MessageOp {
    /// Whether a value in its message is nested deeper than what is stored may be.
    pub(crate) fn is_too_deep(&self) -> bool {
        matches!(self, Self::Put(message) if message.is_too_deep())
    }
}
