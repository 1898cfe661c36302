//! Messages sent to a run that are not yet part of its conversation.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::message::Message;
use crate::panics::lock;

/// A queue of messages that can be closed.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<Contents>);

#[derive(Debug, Default)]
struct Contents {
    messages: VecDeque<Message>,
    closed: bool,
}

impl Inbox {
    /// Adds a message. Returns `false` if the inbox is closed.
    pub(crate) fn push(&self, message: Message) -> bool {
        let mut contents = lock(&self.0);
        if !contents.closed {
            contents.messages.push_back(message);
        }
        !contents.closed
    }

    /// Takes the oldest message.
    pub(crate) fn pop(&self) -> Option<Message> {
        lock(&self.0).messages.pop_front()
    }

    /// Takes the oldest message. If there is none, closes the inbox.
    pub(crate) fn pop_or_close(&self) -> Option<Message> {
        let mut contents = lock(&self.0);
        let next = contents.messages.pop_front();
        contents.closed |= next.is_none();
        next
    }

    /// Takes all messages, oldest first.
    pub(crate) fn take(&self) -> VecDeque<Message> {
        std::mem::take(&mut lock(&self.0).messages)
    }

    /// Closes the inbox. Messages already in it remain.
    pub(crate) fn close(&self) {
        lock(&self.0).closed = true;
    }
}
