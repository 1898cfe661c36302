//! Messages sent to a run while it is in progress.

use super::Driver;
use crate::error::Result;
use crate::event::EventKind;
use crate::message::Message;
use crate::state::Update;

impl Driver {
    /// Adds the messages sent with `steer` to the conversation.
    pub(super) fn drain_inbox(&mut self) -> Result<()> {
        if let Some(control) = self.shared.events.control().filter(|_| self.inbox.is_some()) {
            control.set_steered(false);
        }
        self.poll_inbox();
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        for message in std::mem::take(&mut self.undelivered) {
            let text = message.text();
            self.update(Update::message(message))?;
            self.queue_event(|| EventKind::Steered { text });
        }
        // Only follow-ups are left to deliver.
        self.store_undelivered(Vec::new())
    }

    /// Returns whether a run about to finish has undelivered messages or a waiting follow-up. If not, the inbox is
    /// closed.
    pub(super) fn has_pending_input(&mut self) -> bool {
        if self.poll_inbox() || self.next_follow_up() {
            return true;
        }
        self.close_inbox();
        self.poll_inbox()
    }

    /// Closes the inbox to new messages. Messages sent earlier can still be read.
    pub(super) fn close_inbox(&mut self) {
        if let Some(inbox) = &self.inbox {
            inbox.close();
        }
    }

    /// Reads the inbox. Returns whether anything is pending.
    pub(in crate::run) fn poll_inbox(&mut self) -> bool {
        while let Some(message) = self.inbox.as_ref().and_then(|inbox| inbox.pop()) {
            self.accept_message(message);
        }
        !self.undelivered.is_empty() || self.refused.is_some()
    }

    /// Accepts a message from outside. If a middleware refuses it, the run fails at the point of delivery.
    pub(in crate::run) fn accept_message(&mut self, message: Message) {
        match self.received(vec![message]) {
            Ok(messages) => self.undelivered.extend(messages),
            Err(refused) => self.refused = self.refused.take().or(Some(refused)),
        }
    }
}
