//! What a model was saying when a person ended the run.

use super::driver::Driver;
use crate::error::Result;
use crate::message::{AssistantMessage, Block, Message, Messages};
use crate::state::Update;

/// What stands behind an answer that was interrupted, for the model and for whoever reads the thread.
const MARK: &str = "[The user interrupted this answer here.]";
/// What the model is told where a run is gone on with that was interrupted in an answer.
const GO_ON: &str = "This is a message of the system, not of the user: go on with the answer that was interrupted.";

impl Driver {
    /// Keeps the text of the answer that the model is giving, where a person ends the run, or this agent of it. A
    /// sub-agent tells it to its own agent as the last that it has said.
    pub(super) fn keep_interrupted(&mut self) -> Result<()> {
        let events = &self.shared.events;
        if !events.control().is_some_and(|control| control.is_interrupted(&self.shared.path)) {
            return Ok(());
        }
        let Some(said) = events.said(&self.shared.path).filter(|said| !said.trim().is_empty()) else { return Ok(()) };
        let content = vec![Block::text(format!("{}\n\n{MARK}", said.trim_end()))];
        let message = AssistantMessage { id: self.shared.answer_id(), content, ..AssistantMessage::default() };
        // No hook sees it as an answer: what must not be kept is taken out as it is of what comes from outside.
        for message in self.received(vec![Message::Assistant(message)])? {
            self.update(Update::message(message))?;
        }
        Ok(())
    }
}

/// What the model is to be told where the last answer was interrupted, so that it is not taken for a whole one.
pub(super) fn after_interrupted(messages: &Messages) -> Option<Update> {
    let last = messages.last().filter(|message| message.as_assistant().is_some())?;
    last.text().ends_with(MARK).then(|| Update::message(Message::harness(GO_ON)))
}

/// The words of an answer that a person has interrupted, without the line behind them that says so; nothing where it is a
/// whole one.
///
/// ```
/// use deepagents_core::run::interrupted_words;
/// assert_eq!(interrupted_words("Once upon\n\n[The user interrupted this answer here.]"), Some("Once upon"));
/// assert_eq!(interrupted_words("Once upon a time."), None);
/// ```
pub fn interrupted_words(answer: &str) -> Option<&str> {
    answer.trim_end().strip_suffix(MARK).map(str::trim_end)
}
