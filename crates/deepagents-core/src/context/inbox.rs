//! Messages sent to a run that are not yet part of its conversation.

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::sync::Notify;

use crate::message::Message;
use crate::panics::lock;

/// The messages sent to a run that it has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    contents: Mutex<Contents>,
    /// Notified of each message for the next model call.
    steered: Notify,
}

#[derive(Debug, Default)]
struct Contents {
    /// For the next model call.
    steering: VecDeque<Message>,
    /// For when the run would finish.
    follow_ups: VecDeque<Message>,
    /// Whether it takes no more messages. Those already in it remain.
    closed: bool,
}

impl Inbox {
    /// Adds a message for the next model call. Returns `false` if the inbox is closed.
    pub(crate) fn steer(&self, message: Message) -> bool {
        let is_added = lock(&self.contents).add(message, |contents| &mut contents.steering);
        self.steered.notify_waiters();
        is_added
    }

    /// Adds a message for when the run would finish. Returns `false` if the inbox is closed.
    pub(crate) fn enqueue(&self, message: Message) -> bool {
        lock(&self.contents).add(message, |contents| &mut contents.follow_ups)
    }

    /// Takes the messages for the next model call, oldest first.
    pub(crate) fn take_steering(&self) -> VecDeque<Message> {
        std::mem::take(&mut lock(&self.contents).steering)
    }

    /// Takes all messages: those for the next model call, then those for when the run would finish.
    pub(crate) fn take_all(&self) -> VecDeque<Message> {
        let mut contents = lock(&self.contents);
        let mut all = std::mem::take(&mut contents.steering);
        all.append(&mut contents.follow_ups);
        all
    }

    /// Takes the next message for a run that would finish. If there is none, closes the inbox.
    pub(crate) fn next_or_close(&self) -> Option<Message> {
        let mut contents = lock(&self.contents);
        let next = contents.steering.pop_front().or_else(|| contents.follow_ups.pop_front());
        contents.closed |= next.is_none();
        next
    }

    /// Closes the inbox.
    pub(crate) fn close(&self) {
        lock(&self.contents).closed = true;
    }

    /// Waits until there is a message for the next model call.
    pub(crate) async fn steered(&self) {
        loop {
            // Created before the check, so that no message in between is missed.
            let added = self.steered.notified();
            if !lock(&self.contents).steering.is_empty() {
                return;
            }
            added.await;
        }
    }
}

impl Contents {
    fn add(&mut self, message: Message, queue: impl FnOnce(&mut Self) -> &mut VecDeque<Message>) -> bool {
        if !self.closed {
            queue(self).push_back(message);
        }
        !self.closed
    }
}
