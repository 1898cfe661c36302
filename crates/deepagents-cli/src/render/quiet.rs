//! The final answer alone.

use std::io;

use deepagents::{Event, FinishReason};

use super::{Ending, Renderer};
use crate::output::Screen;

/// The final answer alone on stdout.
#[derive(Debug)]
pub(crate) struct AnswerOnly {
    screen: Screen,
}

impl AnswerOnly {
    pub(crate) fn new() -> Self {
        Self { screen: Screen::new() }
    }
}

impl Renderer for AnswerOnly {
    fn event(&mut self, _event: &Event) -> io::Result<()> {
        Ok(())
    }

    fn notice(&mut self, _text: &str) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        let Ok(outcome) = &ending.result else { return Ok(()) };
        // A run that was stopped in the middle has no answer: its last message may be a tool's.
        if !matches!(
            outcome.stop,
            FinishReason::StepLimit | FinishReason::Cancelled | FinishReason::Deadline | FinishReason::Budget(_)
        ) {
            self.screen.text(outcome.text().trim_end())?;
        }
        self.screen.break_line()
    }
}
