//! Commands, which clients send in place of an input.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// A command, sent in place of an input.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(expecting = "an object with `resume`, `update` or `goto`")]
pub(crate) struct Command {
    pub(crate) resume: Option<Value>,
    #[serde(default, deserialize_with = "channels")]
    pub(crate) update: Option<Map<String, Value>>,
    pub(crate) goto: Option<Value>,
}

/// Deserialises a state update, which may also be a list of pairs of a channel and its value.
pub(super) fn channels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Map<String, Value>>, D::Error> {
    let pair = |pair: Value| match pair {
        Value::Array(pair) => <[Value; 2]>::try_from(pair).ok().and_then(|[name, value]| match name {
            Value::String(name) => Some((name, value)),
            _ => None,
        }),
        _ => None,
    };
    let channels = match Value::deserialize(deserializer)? {
        Value::Null => return Ok(None),
        Value::Object(channels) => Some(channels),
        Value::Array(pairs) => pairs.into_iter().map(pair).collect(),
        _ => None,
    };
    let expected = "an object of channels, such as {\"messages\": […]}, or a list of pairs is expected";
    channels.map(Some).ok_or_else(|| D::Error::custom(expected))
}

impl Command {
    fn goes_to(&self, name: &str) -> bool {
        match &self.goto {
            Some(Value::Array(nodes)) => nodes.iter().any(|node| node == name),
            Some(node) => node == name,
            None => false,
        }
    }

    /// Whether the command ends the thread in its current state.
    pub(crate) fn ends(&self) -> bool {
        self.goes_to("__end__")
    }

    /// Whether the command calls the model, whatever the next node would be.
    pub(crate) fn asks(&self) -> bool {
        self.goes_to("model")
    }

    /// Whether the command has no `goto`.
    pub(crate) fn has_no_goto(&self) -> bool {
        match &self.goto {
            None | Some(Value::Null) => true,
            Some(Value::Array(nodes)) => nodes.is_empty(),
            Some(_) => false,
        }
    }
}
