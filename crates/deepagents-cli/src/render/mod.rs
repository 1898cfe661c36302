//! How a run is shown.

mod json;
mod quiet;
pub(crate) mod style;
mod summary;
mod terminal;
mod todos;
mod tool_line;

use std::io;
use std::time::Duration;

use deepagents::{Event, Outcome, RunError};

pub(crate) use json::JsonLines;
pub(crate) use quiet::AnswerOnly;
pub(crate) use terminal::Live;

/// Shows a run. An error is one of writing to stdout; the run is ended then.
pub(crate) trait Renderer {
    /// Something happened.
    fn event(&mut self, event: &Event) -> io::Result<()>;
    /// The program itself has something to say.
    fn notice(&mut self, text: &str) -> io::Result<()>;
    /// The run is over.
    fn end(&mut self, ending: &Ending) -> io::Result<()>;
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ending {
    /// What it left.
    pub(crate) result: Result<Outcome, Box<RunError>>,
    /// What was counted on the way.
    pub(crate) tally: Tally,
    /// How long it took.
    pub(crate) elapsed: Duration,
}

/// What happened, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Answers of models, those of sub-agents included.
    pub(crate) model_calls: u64,
    /// Tool calls that succeeded.
    pub(crate) tools_done: u64,
}
