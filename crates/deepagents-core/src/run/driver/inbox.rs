//! Messages sent to a run while it is in progress.

use super::Driver;
use crate::context::Inbox;
use crate::error::Result;
use crate::event::EventKind;
use crate::message::Message;
use crate::state::Update;

impl Driver {
    /// Adds the messages sent with `steer` to the conversation.
    pub(super) fn drain_inbox(&mut self) -> Result<()> {
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
        if self.poll_inbox() {
            return true;
        }
        // Follow-ups left by an earlier run come first. They passed the middlewares before they were stored.
        if let Some(next) = self.follow_ups.pop_front() {
            self.undelivered.push(next);
            return true;
        }
        let Some(next) = self.inbox().and_then(Inbox::next_or_close) else { return false };
        self.accept_message(next);
        true
    }

    /// Closes the inbox to new messages. Messages sent earlier can still be read.
    pub(super) fn close_inbox(&self) {
        if let Some(inbox) = self.inbox() {
            inbox.close();
        }
    }

    /// Reads the inbox. Returns whether anything is pending.
    pub(in crate::run) fn poll_inbox(&mut self) -> bool {
        for message in self.inbox().map(Inbox::take_steering).unwrap_or_default() {
            self.accept_message(message);
        }
        !self.undelivered.is_empty() || self.refused.is_some()
    }

    /// Returns the messages sent to this run. A sub-agent receives none.
    pub(in crate::run) fn inbox(&self) -> Option<&Inbox> {
        self.shared.events.control().filter(|_| self.is_main()).map(|control| &control.inbox)
    }

    /// Accepts a message from outside. If a middleware refuses it, the run fails at the point of delivery.
    fn accept_message(&mut self, message: Message) {
        match self.received(vec![message]) {
            Ok(messages) => self.undelivered.extend(messages),
            Err(refused) => self.refused = self.refused.take().or(Some(refused)),
        }
    }
}
