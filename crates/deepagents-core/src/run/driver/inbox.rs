//! What is said to a run while it goes on.

use super::Driver;
use crate::context::RunControl;
use crate::error::Result;
use crate::event::EventKind;
use crate::message::Message;
use crate::state::{Undelivered, Update};

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
        if self.state.get::<Undelivered>().is_some_and(|kept| !kept.is_empty()) {
            self.update(Update::new::<Undelivered>(Vec::new()))?;
        }
        Ok(())
    }

    /// Keeps with the thread what was said too late for this run: the one that goes on delivers it.
    pub(super) fn keep_undelivered(&mut self) -> Result<()> {
        if self.undelivered.is_empty() || self.is_below {
            return Ok(());
        }
        let messages = std::mem::take(&mut self.undelivered);
        self.update(Update::new::<Undelivered>(messages))
    }

    /// Takes up what was said to an earlier run too late.
    pub(in crate::run) fn take_undelivered(&mut self) {
        let kept = self.state.get::<Undelivered>().cloned().unwrap_or_default();
        self.undelivered.splice(0..0, kept);
    }

    /// Whether something was said that the run, about to end, has not taken in, or a follow-up waits. If not, nothing more
    /// can be said.
    pub(super) fn has_pending_input(&mut self) -> bool {
        if self.poll_inbox() {
            return true;
        }
        if let Some(next) = self.shared.events.control().filter(|_| self.is_main()).and_then(RunControl::next_follow_up)
        {
            self.let_in(next);
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
    fn let_in(&mut self, message: Message) {
        match self.received(vec![message]) {
            Ok(messages) => self.undelivered.extend(messages),
            Err(refused) => self.refused = self.refused.take().or(Some(refused)),
        }
    }
}
