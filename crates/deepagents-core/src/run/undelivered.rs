//! Messages that a run ended too early to deliver, stored with its thread.

use super::driver::Driver;
use crate::context::Inbox;
use crate::error::Result;
use crate::message::Message;
use crate::state::{Undelivered, UndeliveredMessage, Update};

impl Driver {
    /// Stores the undelivered messages and follow-ups with the thread, for the run that resumes this one.
    pub(super) fn keep_undelivered(&mut self) -> Result<()> {
        if self.is_below {
            return Ok(());
        }
        self.poll_inbox();
        // What is left are follow-ups.
        for message in self.inbox().map(Inbox::take_all).unwrap_or_default() {
            // A refused message is not kept, just as with `steer`.
            self.follow_ups.extend(self.received(vec![message]).unwrap_or_default());
        }
        let messages = std::mem::take(&mut self.undelivered);
        self.store_undelivered(messages)
    }

    /// Restores the messages that an earlier run did not deliver.
    pub(super) fn take_undelivered(&mut self) {
        let (mut messages, mut follow_ups) = (Vec::new(), Vec::new());
        for kept in self.state.get::<Undelivered>().cloned().unwrap_or_default() {
            match kept {
                UndeliveredMessage::Said(message) => messages.push(message),
                UndeliveredMessage::FollowUp { follow_up } => follow_ups.push(follow_up),
            }
        }
        self.undelivered.splice(0..0, messages);
        self.follow_ups = follow_ups.into();
    }

    /// Stores these messages, and the remaining follow-ups.
    pub(super) fn store_undelivered(&mut self, messages: Vec<Message>) -> Result<()> {
        let follow_ups =
            self.follow_ups.iter().map(|message| UndeliveredMessage::FollowUp { follow_up: message.clone() });
        let all: Vec<UndeliveredMessage> =
            messages.into_iter().map(UndeliveredMessage::Said).chain(follow_ups).collect();
        if self.state.get::<Undelivered>().map_or(all.is_empty(), |kept| *kept == all) {
            return Ok(());
        }
        self.update(Update::new::<Undelivered>(all))
    }
}
