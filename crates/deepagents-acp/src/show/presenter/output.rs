//! The text of answers, also where pieces of it were missed because the editor reads slowly.

use super::Presenter;
use crate::wire;

impl Presenter<'_> {
    /// Whether pieces of the present answer were missed.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Shows the rest of an answer of which pieces were missed.
    pub(crate) fn catch_up(&mut self, run: &str, answer: (u32, u32), text: &str) {
        (self.is_behind, self.missed) = (false, None);
        let said = if self.said.0 == answer { self.said.1 } else { 0 };
        if let Some(rest) = text.get(said..) {
            self.say(run, answer, rest);
        }
    }

    /// Shows the rest of the answer at the end of a run, if pieces of it were missed.
    pub(crate) fn catch_up_at_end(&mut self, run: &str, text: &str) {
        if let Some(answer) = self.missed {
            self.catch_up(run, answer, text);
        }
    }

    /// Shows text of an answer, which is identified by its turn and attempt.
    pub(super) fn say(&mut self, run: &str, answer: (u32, u32), text: &str) {
        if self.said.0 != answer {
            self.said = (answer, 0);
        }
        self.said.1 += text.len();
        self.show_output(run, answer, text, wire::SessionUpdate::AgentMessageChunk);
    }

    /// Shows a piece of an answer.
    pub(super) fn show_output(
        &self,
        run: &str,
        (turn, attempt): (u32, u32),
        text: &str,
        update: fn(wire::ContentChunk) -> wire::SessionUpdate,
    ) {
        if !text.is_empty() {
            let id = wire::MessageId::new(format!("{run}/{turn}.{attempt}"));
            self.editor.update(update(wire::ContentChunk::new(wire::ContentBlock::from(text)).message_id(id)));
        }
    }
}
