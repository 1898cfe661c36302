//! Messages to a run in progress.

use deepagents::Message;

use super::images::names_images;
use super::{Session, Shared};
use crate::app::event::Event;
use crate::app::transcript::Picture;

impl Shared {
    /// Sends the run a message, or keeps it for the run that is about to start.
    fn send(&mut self, message: Message, pictures: Vec<Picture>) {
        self.steered.push((message.text(), pictures));
        if !self.run.as_ref().is_some_and(|run| run.steer(message.clone())) {
            self.early.push(message);
        }
    }

    /// Takes the pictures of the message that the run has taken.
    pub(super) fn take_pictures(&mut self, text: &str) -> Vec<Picture> {
        let taken = self.steered.iter().position(|(sent, _)| sent == text);
        taken.map(|at| self.steered.remove(at).1).unwrap_or_default()
    }

    /// Takes the messages that no run has received.
    pub(super) fn take_unsent(&mut self) -> Vec<String> {
        let early: Vec<String> = std::mem::take(&mut self.early).iter().map(Message::text).collect();
        self.drop_pictures(&early);
        early.into_iter().chain(std::mem::take(&mut self.unread)).collect()
    }

    /// Drops the pictures of messages that are taken back, the last ones with these texts.
    fn drop_pictures(&mut self, texts: &[String]) {
        for text in texts.iter().rev() {
            if let Some(at) = self.steered.iter().rposition(|(sent, _)| sent == text) {
                self.steered.remove(at);
            }
        }
    }
}

impl Session {
    /// Sends the run a message, with the images that it names.
    pub(super) fn steer(&self, text: String) {
        let has_images = names_images(&text);
        let begins = self.with(|state| {
            if state.unread.is_empty() && !has_images {
                state.send(Message::user(text), Vec::new());
                return false;
            }
            // Messages keep their order.
            state.unread.push(text);
            state.unread.len() == 1
        });
        if begins {
            self.spawn(|this| async move {
                this.send_unread().await;
                Ok(None)
            });
        }
    }

    /// Reads the images of messages and sends these.
    async fn send_unread(&self) {
        while let Some(text) = self.with(|state| state.unread.first().cloned()) {
            let (message, pictures) = match self.ready().await {
                Ok(connection) => self.message(&connection, text.clone()).await,
                Err(_) => (Message::user(text.clone()), Vec::new()),
            };
            self.with(|state| {
                // It may have been taken back meanwhile.
                if state.unread.first() == Some(&text) {
                    state.unread.remove(0);
                    state.send(message, pictures);
                }
            });
        }
    }

    /// Returns messages that the run has not received yet to the user.
    pub(super) fn retract(&self) {
        let texts = self.with(|state| {
            let unsent = state.take_unsent();
            let sent = state.run.as_ref().map(|run| run.retract()).unwrap_or_default();
            let sent: Vec<String> = sent.iter().map(Message::text).collect();
            state.drop_pictures(&sent);
            sent.into_iter().chain(unsent).collect()
        });
        self.emit(Event::Retracted(texts));
    }
}
