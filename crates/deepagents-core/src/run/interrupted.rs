//! The last messages of runs that a person interrupted or a limit stopped.

use super::driver::Driver;
use crate::error::Result;
use crate::journal::Replay;
use crate::message::{AssistantMessage, Block, Message, Messages};
use crate::state::Update;
use crate::status::FinishReason;

/// Follows an interrupted answer, for the model and for readers of the thread.
const INTERRUPTED_MARK: &str = "[The user interrupted this answer here.]";
/// Tells the model to continue an interrupted answer when its run is resumed.
const CONTINUE_PROMPT: &str =
    "This is a message of the system, not of the user: go on with the answer that was interrupted.";

/// Tells the model to continue a task that a limit had stopped.
const RESUME_PROMPT: &str =
    "This is a message of the system, not of the user: the run is resumed; go on with the task where it was stopped.";

impl Driver {
    /// Saves the text of the model's partial answer if a person ends the run or this agent. For a sub-agent, its parent
    /// receives it as the final text.
    pub(super) fn keep_interrupted(&mut self) -> Result<()> {
        let events = &self.shared.events;
        if !events.control().is_some_and(|control| control.is_interrupted(&self.shared.path)) {
            return Ok(());
        }
        let Some(said) = events.partial_text(&self.shared.path).filter(|said| !said.trim().is_empty()) else {
            return Ok(());
        };
        let content = vec![Block::text(format!("{}\n\n{INTERRUPTED_MARK}", said.trim_end()))];
        let message = AssistantMessage { id: self.shared.answer_id(), content, ..AssistantMessage::default() };
        // No hook sees this message as an answer, so it passes through the same filters as text from outside.
        for message in self.received(vec![Message::Assistant(message)])? {
            self.update(Update::message(message))?;
        }
        Ok(())
    }
}

/// Returns the message to the model if the last answer was interrupted, so that it does not take it for complete.
pub(super) fn after_interrupted(messages: &Messages) -> Option<Update> {
    let answer = messages.last()?.as_assistant()?;
    // Models imitate the mark, but every complete answer of a model has its usage.
    let is_interrupted = answer.usage.is_none() && interrupted_words(&answer.text()).is_some();
    is_interrupted.then(|| Update::message(Message::harness(CONTINUE_PROMPT)))
}

/// Returns the message to the model if the conversation of a run was closed at a limit, by a hook or by a last answer of
/// the model, so that the resumed run goes on with the task.
pub(super) fn after_limit(left: &Replay, stop: &FinishReason) -> Option<Update> {
    let has_last_answer = left.machine.as_ref().is_some_and(|machine| machine.closing().is_some());
    let last = left.state.messages().last().and_then(|message| message.as_assistant());
    // Every answer of a model has its usage.
    let is_closed = has_last_answer || last.is_some_and(|answer| answer.usage.is_none());
    let is_closed = is_closed && matches!(stop, FinishReason::StepLimit | FinishReason::Budget(_));
    is_closed.then(|| Update::message(Message::harness(RESUME_PROMPT)))
}

/// Returns the text of an interrupted answer without the line that marks it, or `None` if the answer is complete.
///
/// ```
/// use deepagents_core::run::interrupted_words;
/// assert_eq!(interrupted_words("Once upon\n\n[The user interrupted this answer here.]"), Some("Once upon"));
/// assert_eq!(interrupted_words("Once upon a time."), None);
/// ```
pub fn interrupted_words(answer: &str) -> Option<&str> {
    answer.trim_end().strip_suffix(INTERRUPTED_MARK).map(str::trim_end)
}
