//! Changes to a history, as values.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Message, MessageId};

/// One change to the messages of a thread. Changes are journalled, not histories.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MessageOp {
    /// Appends a message, or replaces in place the one with the same id.
    Put(Arc<Message>),
    /// Removes the message with this id; unknown ids are ignored.
    Remove(MessageId),
    /// Removes everything so far.
    RemoveAll,
}

impl MessageOp {
    /// Appends or replaces.
    pub fn put(message: impl Into<Message>) -> Self {
        Self::Put(Arc::new(message.into()))
    }
}
