//! What was said to a run under way and is not yet part of its conversation.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::message::Message;

/// Messages in the order in which they were said, until it is closed.
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

    /// Adds a message; says whether it is taken.
    pub(crate) fn push(&self, message: Message) -> bool {
        let mut contents = self.contents();
        if !contents.closed {
            contents.messages.push_back(message);
        }
        !contents.closed
    }

    /// The oldest message.
    pub(crate) fn pop(&self) -> Option<Message> {
        self.contents().messages.pop_front()
    }

    /// The oldest message; once there is none, none is taken any more.
    pub(crate) fn pop_or_close(&self) -> Option<Message> {
        let mut contents = self.contents();
        let next = contents.messages.pop_front();
        contents.closed |= next.is_none();
        next
    }

    /// All messages, oldest first.
    pub(crate) fn take(&self) -> VecDeque<Message> {
        std::mem::take(&mut self.contents().messages)
    }

    /// Takes no message any more; what was said before stays.
    pub(crate) fn close(&self) {
        self.contents().closed = true;
    }
}
