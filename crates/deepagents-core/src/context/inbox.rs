//! What was said to a run under way and is not yet part of its conversation.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::message::Message;

/// Messages in the order in which they were said, until it is closed.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Message>,
    closed: bool,
}

impl Inbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message; says whether it is taken.
    pub(crate) fn push(&self, message: Message) -> bool {
        let mut waiting = self.waiting();
        if !waiting.closed {
            waiting.messages.push_back(message);
        }
        !waiting.closed
    }

    /// The oldest message.
    pub(crate) fn pop(&self) -> Option<Message> {
        self.waiting().messages.pop_front()
    }

    /// The oldest message; once there is none, none is taken any more.
    pub(crate) fn pop_or_close(&self) -> Option<Message> {
        let mut waiting = self.waiting();
        let next = waiting.messages.pop_front();
        waiting.closed |= next.is_none();
        next
    }

    /// All messages, oldest first.
    pub(crate) fn take(&self) -> VecDeque<Message> {
        std::mem::take(&mut self.waiting().messages)
    }

    /// Takes no message any more; what was said before stays.
    pub(crate) fn close(&self) {
        self.waiting().closed = true;
    }
}
