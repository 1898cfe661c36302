//! Changes to a history.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Message, MessageId};

/// A change to the messages of a thread. The journal stores changes, not histories.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MessageOp {
    /// Appends a message, or replaces in place the one with the same id.
    Put(Arc<Message>),
    /// Removes the message with this id; unknown ids are ignored.
    Remove(MessageId),
    /// Removes all messages so far.
    RemoveAll,
}

impl MessageOp {
    /// Creates a [`Put`](Self::Put).
    pub fn put(message: impl Into<Message>) -> Self {
        Self::Put(Arc::new(message.into()))
    }
}
