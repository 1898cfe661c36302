//! The final answer alone.

use std::io;

use deepagents::{Event, EventKind, FinishReason, MiddlewareEvent};

use super::{Ending, Renderer, json_text};
use crate::output::Screen;

/// Prints only the final answer, on stdout.
#[derive(Debug)]
pub(crate) struct AnswerOnly {
    screen: Screen,
    /// Whether a structured answer is expected; text is then not an answer.
    has_shape: bool,
    /// Whether a run that reaches a limit ends with an answer.
    answers_at_limit: bool,
}

impl AnswerOnly {
    pub(crate) fn new(has_shape: bool, answers_at_limit: bool) -> Self {
        Self { screen: Screen::new(), has_shape, answers_at_limit }
    }
}

impl Renderer for AnswerOnly {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            // A missing MCP server is reported even in quiet mode.
            EventKind::Middleware(MiddlewareEvent::McpServer { problem: Some(problem), .. }) => {
                self.screen.note(problem)
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        let Ok(outcome) = &ending.result else { return Ok(()) };
        // An interrupted or unfinished run has no answer: its last message may be a tool result, or the text before a
        // call.
        let is_at_limit = matches!(outcome.stop, FinishReason::StepLimit | FinishReason::Budget(_));
        let is_unfinished = matches!(
            outcome.stop,
            FinishReason::Interrupted
                | FinishReason::NoProgress
                | FinishReason::Cancelled
                | FinishReason::Suspended
                | FinishReason::Deadline
        ) || (is_at_limit && !self.answers_at_limit);
        if !is_unfinished && !ending.is_cut_short(outcome) {
            match outcome.structured_json() {
                Some(answer) => self.screen.text(&json_text(answer).map_err(io::Error::other)?)?,
                None if self.has_shape => {}
                None => self.screen.text(outcome.text().trim_end())?,
            }
        }
        self.screen.break_line()
    }
}
