//! Limits on the nesting of JSON: parsers accept a depth of 128, and stored values are nested within records.

use serde_json::Value;

use super::{Block, Message, MessageOp, ToolMessage};

/// Maximum nesting depth of a call's arguments.
pub(crate) const MAX_ARGUMENT_DEPTH: usize = 64;

/// Maximum nesting depth of any other value that is stored or emitted. Arguments stay below it even as part of a
/// question.
pub(crate) const MAX_VALUE_DEPTH: usize = 96;

/// Returns whether a value is nested more than `levels` deep.
pub(crate) fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| is_deeper(item, levels - 1)),
        Value::Object(fields) => levels == 0 || fields.values().any(|field| is_deeper(field, levels - 1)),
        _ => false,
    }
}

impl Message {
    /// Returns whether the message contains a value nested too deep to be stored.
    pub(crate) fn is_too_deep(&self) -> bool {
        match self {
            Self::Tool(result) => result.is_too_deep(),
            other => other.content().iter().any(Block::is_too_deep),
        }
    }
}

impl ToolMessage {
    /// Returns whether it contains a value, such as its artifact, nested too deep to be stored.
    pub(crate) fn is_too_deep(&self) -> bool {
        let artifact = self.artifact.as_ref().is_some_and(|value| is_deeper(value, MAX_VALUE_DEPTH));
        artifact || self.content.iter().any(Block::is_too_deep)
    }
}

impl Block {
    fn is_too_deep(&self) -> bool {
        let args = if let Self::ToolCall(call) = self { Some(&call.args) } else { None };
        args.is_some_and(|value| is_deeper(value, MAX_VALUE_DEPTH))
            || self.native().is_some_and(|item| is_deeper(item.value(), MAX_VALUE_DEPTH))
    }
}

impl MessageOp {
    /// Returns whether its message contains a value nested too deep to be stored.
    pub(crate) fn is_too_deep(&self) -> bool {
        matches!(self, Self::Put(message) if message.is_too_deep())
    }
}
