//! How a run is shown.

mod escape;
mod json;
mod loaded;
mod notices;
mod quiet;
pub(crate) mod style;
mod sub_agents;
mod summary;
mod terminal;
mod todos;
mod tool_line;
mod wrap;

use std::io;
use std::time::Duration;

use deepagents::core::run::BudgetUsage;
use deepagents::middleware::hooks::HookEvent;
use deepagents::{Event, EventKind, FinishReason, MiddlewareEvent, Outcome, RunError, Usage};

pub(crate) use escape::{escaped, escaped_json, escaped_lines, json_text};
pub(crate) use json::JsonLines;
pub(crate) use loaded::{Loaded, several};
pub(crate) use quiet::AnswerOnly;
pub(crate) use terminal::Live;
pub(crate) use tool_line::{call as tool_line, failure as tool_failure};
pub(crate) use wrap::{Columns, width};

/// Shows a run. An error is one of writing to stdout; the run is ended then.
pub(crate) trait Renderer {
    /// Something happened.
    fn event(&mut self, event: &Event) -> io::Result<()>;
    /// The program itself has something to say.
    fn notice(&mut self, text: &str) -> io::Result<()>;
    /// Somebody is about to be asked at the terminal.
    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }
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
    /// Tokens of all agents.
    pub(crate) usage: Usage,
    /// What all its runs have spent together.
    pub(crate) spent: BudgetUsage,
    /// How long it took, waiting for decisions left out.
    pub(crate) elapsed: Duration,
    /// Whether a signal has stopped it.
    pub(crate) interrupted: bool,
    /// Whether it was stopped while it waited for tasks in the background.
    pub(crate) left: bool,
    /// What a hook said that has ended it.
    pub(crate) ended_by: Option<String>,
}

impl Ending {
    /// Whether a run that was ended by other than its model has no answer: what stands last may be a tool's result, or the
    /// answer of an earlier run.
    pub(crate) fn is_cut_short(&self, outcome: &Outcome) -> bool {
        let answer = || outcome.messages().last().is_some_and(|message| message.as_assistant().is_some());
        outcome.stop == FinishReason::Ended && (self.ended_by.is_some() || !answer())
    }
}

/// What is said of a hook that ends the run before its model has; a run that is about to end anyway has its answer.
pub(crate) fn hook_end(event: &Event) -> Option<&str> {
    match &event.kind {
        EventKind::Middleware(MiddlewareEvent::Hook { event: asked_at, message, ended: true, .. })
            if event.path.is_empty() && asked_at != HookEvent::Stop.as_str() =>
        {
            Some(message)
        }
        _ => None,
    }
}

/// What happened, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Answers of models, those of sub-agents included.
    pub(crate) answers: u64,
    /// Tool calls that succeeded.
    pub(crate) tools_done: u64,
}
