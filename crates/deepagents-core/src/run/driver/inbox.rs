//! What is said to a run while it goes on.

use super::Driver;
use crate::error::Result;
use crate::event::EventKind;
use crate::message::Message;
use crate::state::Update;

impl Driver {
    /// Takes what was said with `steer` into the conversation.
    pub(super) fn drain_inbox(&mut self) -> Result<()> {
        if let Some(control) = self.shared.events.control().filter(|_| self.inbox.is_some()) {
            control.set_said(false);
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
        self.forget_delivered()
    }

    /// Whether something was said that the run, about to end, has not taken in, or a follow-up waits. If not, nothing more
    /// can be said.
    pub(super) fn has_pending_input(&mut self) -> bool {
        if self.poll_inbox() {
            return true;
        }
        if self.next_follow_up() {
            return true;
        }
        self.close_inbox();
        self.poll_inbox()
    }

    /// Nothing more can be said from now on; what was said before can still be read.
    pub(super) fn close_inbox(&mut self) {
        if let Some(inbox) = &self.inbox {
            inbox.close();
        }
    }

    /// Reads the inbox; says whether anything waits.
    pub(in crate::run) fn poll_inbox(&mut self) -> bool {
        while let Some(message) = self.inbox.as_ref().and_then(|inbox| inbox.pop()) {
            self.let_in(message);
        }
        !self.undelivered.is_empty() || self.refused.is_some()
    }

    /// Takes a message from outside, unless a middleware refuses it: the run fails then where it would be delivered.
    pub(in crate::run) fn let_in(&mut self, message: Message) {
        match self.received(vec![message]) {
            Ok(messages) => self.undelivered.extend(messages),
            Err(refused) => self.refused = self.refused.take().or(Some(refused)),
        }
    }
}
