//! What the live view shows of single events.

use std::io;
use std::time::Duration;

use deepagents::core::tool::CallId;
use deepagents::{Event, MiddlewareEvent, Outcome};

use super::{LastShown, Live};
use crate::duration;
use crate::render::notices::notice;
use crate::render::style::first_line;
use crate::render::{Ending, hook_end, tool_failure};

/// The tool that is shown as the todo list when it succeeds.
const WRITE_TODOS: &str = "write_todos";
/// Maximum number of characters shown of a problem with a file.
const MAX_WARNING_CHARS: usize = 400;
/// Maximum number of characters shown of the reason for a retry.
const MAX_REASON_CHARS: usize = 400;
/// Shown after the beginning of an answer that broke off.
const DISCARDED: &str = "[the answer broke off here, and does not count]";

impl Live {
    pub(super) fn switch_to(&mut self, kind: LastShown) -> io::Result<()> {
        if self.last != kind {
            self.screen.break_line()?;
            if self.last != LastShown::Nothing {
                self.screen.line("")?;
            }
            self.last = kind;
        }
        Ok(())
    }

    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        let begins = self.last != LastShown::Text;
        let text = if begins { text.trim_start() } else { text };
        if text.is_empty() {
            return Ok(());
        }
        self.switch_to(LastShown::Text)?;
        self.is_begun = true;
        self.screen.text(text)
    }

    pub(super) fn tool_line(&mut self, path: &[String], mark: &str, call: &str, remark: &str) -> io::Result<()> {
        let remark = if remark.is_empty() { String::new() } else { format!("  {}", self.style.dim(remark)) };
        let line = format!("{mark} {call}{remark}");
        if path.is_empty() {
            self.switch_to(LastShown::Tools)?;
            return self.screen.line(&line);
        }
        let lines = self.below.lines(path, [line], self.last == LastShown::SubAgents, self.style);
        self.show_below(&lines)
    }

    pub(super) fn show_below(&mut self, lines: &[String]) -> io::Result<()> {
        self.show_lines(LastShown::SubAgents, lines)
    }

    pub(super) fn show_lines(&mut self, kind: LastShown, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.switch_to(kind)?;
        lines.iter().try_for_each(|line| self.screen.line(line))
    }

    /// Shows a sub-agent's text and plan.
    pub(super) fn sub_agent(&mut self, event: &Event) -> io::Result<()> {
        let there = self.last == LastShown::SubAgents;
        let lines = self.below.event(event, &self.running, there, self.style);
        self.show_below(&lines)
    }

    /// Shows the running tool calls in the status line.
    pub(super) fn show_running(&mut self, progress: Option<&str>) -> io::Result<()> {
        let mut calls = self.running.values();
        let line = match (calls.next(), calls.len()) {
            (None, _) => return self.screen.clear_status(),
            (Some(call), 0) => call.clone(),
            (Some(call), more) => format!("{call} and {more} more"),
        };
        // Leave room for the mark and a space before it, and `…` after it.
        let room = self.screen.columns().saturating_sub(3);
        let line = match progress {
            Some(text) => format!("{}  {text}", first_line(&line, room / 2)),
            None => line,
        };
        let line = format!("{} {}", self.style.yellow("●"), self.style.dim(&first_line(&line, room)));
        self.screen.status(&line)
    }

    /// Shows what was loaded, before the first model call.
    pub(super) fn show_loaded(&mut self) -> io::Result<()> {
        match self.loaded.take().and_then(|loaded| loaded.line()) {
            Some(line) => self.screen.note(&line),
            None => Ok(()),
        }
    }

    /// Whether a resumed run had its answer before this process showed anything.
    pub(super) fn is_answered_before(&self, ending: &Ending, outcome: &Outcome) -> bool {
        outcome.stop.is_complete()
            && self.last != LastShown::Text
            && ending.tally.answers == 0
            && !outcome.text().trim().is_empty()
    }

    pub(super) fn waiting(&mut self, what: &str) -> io::Result<()> {
        let line = self.style.dim(&format!("… {what}"));
        self.screen.status(&line)
    }

    pub(super) fn discarded(&mut self, path: &[String], reason: &str, retry_after_ms: u64) -> io::Result<()> {
        // Where the text goes, so that a file of it does not read as if the answer began twice.
        if path.is_empty() && std::mem::take(&mut self.is_begun) {
            self.screen.line(&self.style.dim(DISCARDED))?;
            self.last = LastShown::Answer;
        }
        let what = if self.reason == reason { "that failed again" } else { &first_line(reason, MAX_REASON_CHARS) };
        let pause = Duration::from_millis(retry_after_ms);
        let pause = if retry_after_ms < 100 { "at once".to_owned() } else { format!("in {}", duration::show(pause)) };
        let notice = match what.strip_suffix('?') {
            Some(_) => format!("{what} Trying again {pause}"),
            None => format!("{what}; trying again {pause}"),
        };
        reason.clone_into(&mut self.reason);
        if retry_after_ms > 0 {
            return self.screen.note(&notice);
        }
        self.discarded.insert(path.to_vec(), notice);
        Ok(())
    }

    pub(super) fn model_started(&mut self) -> io::Result<()> {
        self.is_begun = false;
        if self.last == LastShown::Text {
            self.last = LastShown::Answer;
        }
        self.show_loaded()?;
        self.waiting("waiting for the model")
    }

    pub(super) fn tool_finished(
        &mut self,
        path: &[String],
        call: &CallId,
        name: &str,
        error: bool,
        text: &str,
    ) -> io::Result<()> {
        let shown = self.running.remove(call).unwrap_or_else(|| name.to_owned());
        if let Some(failure) = tool_failure(name, error, text) {
            let mark = self.style.red("✗");
            self.tool_line(path, &mark, &shown, &failure)?;
        } else if name != WRITE_TODOS {
            let mark = self.style.green("✓");
            self.tool_line(path, &mark, &shown, "")?;
        }
        self.show_running(None)
    }

    pub(super) fn middleware(&mut self, event: &Event, done: &MiddlewareEvent) -> io::Result<()> {
        match done {
            // The outcome of the run includes this message.
            MiddlewareEvent::Hook { .. } if hook_end(event).is_some() => return Ok(()),
            MiddlewareEvent::Hook { message, .. } => return self.warn(message),
            MiddlewareEvent::CommandOutput { command, text } => {
                let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
                return self.show_running(Some(&format!("{command}: {last}")));
            }
            MiddlewareEvent::CommandEnded { command, end } => {
                return self.warn(&format!("{command} has ended: {end}"));
            }
            _ => {}
        }
        if let Some(notice) = notice(done) {
            return self.warn(&notice);
        }
        let problems = match (done, &mut self.loaded) {
            (_, Some(loaded)) => loaded.take(event).unwrap_or_default(),
            // A server lost later is reported too.
            (MiddlewareEvent::McpServer { problem: Some(problem), .. }, None) => vec![problem.clone()],
            _ => Vec::new(),
        };
        problems.iter().try_for_each(|problem| self.warn(problem))
    }

    fn warn(&mut self, text: &str) -> io::Result<()> {
        self.screen.note(&first_line(text, MAX_WARNING_CHARS))
    }
}
