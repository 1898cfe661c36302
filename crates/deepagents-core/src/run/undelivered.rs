//! What was said to a run that ended before it could deliver it, kept with its thread.

use super::driver::Driver;
use crate::context::RunControl;
use crate::error::Result;
use crate::message::Message;
use crate::state::{Undelivered, UndeliveredMessage, Update};

impl Driver {
    /// Keeps with the thread what was said too late for this run, follow-ups too: the one that goes on delivers it.
    pub(super) fn keep_undelivered(&mut self) -> Result<()> {
        if self.is_below {
            return Ok(());
        }
        self.take_follow_ups();
        let said = std::mem::take(&mut self.undelivered);
        self.keep(said)
    }

    /// Takes up what was said to an earlier run too late.
    pub(super) fn take_undelivered(&mut self) {
        let (mut said, mut follow_ups) = (Vec::new(), Vec::new());
        for kept in self.state.get::<Undelivered>().cloned().unwrap_or_default() {
            match kept {
                UndeliveredMessage::Said(message) => said.push(message),
                UndeliveredMessage::FollowUp { follow_up } => follow_ups.push(follow_up),
            }
        }
        self.undelivered.splice(0..0, said);
        self.follow_ups = follow_ups.into();
    }

    /// Keeps what was said and waits for the next call of the model, so that a process that is killed does not lose it.
    pub(super) fn keep_said(&mut self) -> Result<()> {
        let said = self.undelivered.clone();
        self.keep(said)
    }

    /// Once what was said is part of the conversation, only follow-ups stay with the thread.
    pub(super) fn forget_delivered(&mut self) -> Result<()> {
        self.keep(Vec::new())
    }

    /// The next message for a run that would end: what an earlier one has kept comes first.
    pub(super) fn next_follow_up(&mut self) -> bool {
        if let Some(next) = self.follow_ups.pop_front() {
            // The middlewares let it in before it was kept.
            self.undelivered.push(next);
            return true;
        }
        let next = self.shared.events.control().filter(|_| self.is_main()).and_then(RunControl::next_follow_up);
        next.is_some_and(|next| {
            self.let_in(next);
            true
        })
    }

    /// Takes the follow-ups that wait, and no more from now on.
    fn take_follow_ups(&mut self) {
        let Some(control) = self.shared.events.control() else { return };
        control.close();
        for message in control.retract() {
            // One that a middleware refuses is not kept, as none that was said.
            self.follow_ups.extend(self.received(vec![message]).unwrap_or_default());
        }
    }

    /// Keeps this, and the follow-ups that were not taken.
    fn keep(&mut self, said: Vec<Message>) -> Result<()> {
        let follow_ups =
            self.follow_ups.iter().map(|message| UndeliveredMessage::FollowUp { follow_up: message.clone() });
        let all: Vec<UndeliveredMessage> = said.into_iter().map(UndeliveredMessage::Said).chain(follow_ups).collect();
        if self.state.get::<Undelivered>().map_or(all.is_empty(), |kept| *kept == all) {
            return Ok(());
        }
        self.update(Update::new::<Undelivered>(all))
    }
}
