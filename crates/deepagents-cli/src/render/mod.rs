//! Displaying a run.

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
pub(crate) use loaded::{Loaded, name_list};
pub(crate) use quiet::AnswerOnly;
pub(crate) use terminal::Live;
pub(crate) use tool_line::{call as tool_line, failure as tool_failure};
pub(crate) use wrap::{Columns, width};

/// Displays a run. Errors are those of writing to stdout, and end the run.
pub(crate) trait Renderer {
    /// Shows an event.
    fn event(&mut self, event: &Event) -> io::Result<()>;
    /// Shows a message of the program itself.
    fn notice(&mut self, _text: &str) -> io::Result<()> {
        Ok(())
    }
    /// Prepares for a question at the terminal.
    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Shows the end of the run.
    fn end(&mut self, _ending: &Ending) -> io::Result<()> {
        Ok(())
    }
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ending {
    /// Its result.
    pub(crate) result: Result<Outcome, Box<RunError>>,
    /// Counts of what happened.
    pub(crate) tally: Tally,
    /// Tokens used by all agents.
    pub(crate) usage: Usage,
    /// Total spending of all its runs.
    pub(crate) spent: BudgetUsage,
    /// Duration, without waiting for decisions.
    pub(crate) elapsed: Duration,
    /// Whether a signal stopped it.
    pub(crate) interrupted: bool,
    /// Whether it was stopped while waiting for background tasks.
    pub(crate) left: bool,
    /// The message of the hook that ended it.
    pub(crate) ended_by: Option<String>,
}

impl Ending {
    /// Whether a run ended by something other than its model has no answer: its last message may be a tool result, or
    /// the answer of an earlier run.
    pub(crate) fn is_cut_short(&self, outcome: &Outcome) -> bool {
        let answer = || outcome.messages().last().is_some_and(|message| message.as_assistant().is_some());
        outcome.stop == FinishReason::Ended && (self.ended_by.is_some() || !answer())
    }
}

/// Returns the message of a hook that ends the run before its model does. A `Stop` hook does not count, as the run then
/// has its answer.
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

/// Counts of what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Model answers, including those of sub-agents.
    pub(crate) answers: u64,
    /// Tool calls that succeeded.
    pub(crate) tools_done: u64,
}
