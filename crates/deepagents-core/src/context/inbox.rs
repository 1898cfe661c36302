//! Messages sent to a run that are not yet part of its conversation.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::message::Message;

/// A queue of messages that can be closed.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<Contents>);

#[derive(Debug, Default)]
struct Contents {
    messages: VecDeque<Message>,
    closed: bool,
}

impl Inbox {
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message. Returns `false` if the inbox is closed.
    pub(crate) fn push(&self, message: Message) -> bool {
        let mut contents = self.contents();
        if !contents.closed {
            contents.messages.push_back(message);
        }
        !contents.closed
    }

    /// Takes the oldest message.
    pub(crate) fn pop(&self) -> Option<Message> {
        self.contents().messages.pop_front()
    }

    /// Takes the oldest message. If there is none, closes the inbox.
    pub(crate) fn pop_or_close(&self) -> Option<Message> {
        let mut contents = self.contents();
        let next = contents.messages.pop_front();
        contents.closed |= next.is_none();
        next
    }

    /// Takes all messages, oldest first.
    pub(crate) fn take(&self) -> VecDeque<Message> {
        std::mem::take(&mut self.contents().messages)
    }

    /// Closes the inbox. Messages already in it remain.
    pub(crate) fn close(&self) {
        self.contents().closed = true;
    }
}
