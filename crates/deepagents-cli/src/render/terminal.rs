//! The live view for people.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use deepagents::channels::Todos;
use deepagents::core::tool::CallId;
use deepagents::{Event, EventKind, MiddlewareEvent, Outcome, State};

use super::notices::notice;
use super::style::{Style, first_line};
use super::sub_agents::SubAgentView;
use super::todos::TodoView;
use super::{Ending, Loaded, Renderer, Tally, hook_end, summary, tool_line};
use crate::duration;
use crate::output::Screen;

/// The tool that is shown as the todo list when it succeeds.
const WRITE_TODOS: &str = "write_todos";
/// Maximum number of characters shown of a problem with a file.
const MAX_WARNING_CHARS: usize = 400;

/// Maximum number of characters shown of the reason for a retry.
const MAX_REASON_CHARS: usize = 400;

/// Shows text as it streams in, a line for each finished tool call, and changes of the todo list. On a terminal, a
/// status line shows what is in progress.
#[derive(Debug)]
pub(crate) struct Live {
    screen: Screen,
    style: Style,
    last: LastShown,
    running: BTreeMap<CallId, String>,
    todos: TodoView,
    below: SubAgentView,
    /// What was loaded from files; `None` once it has been shown.
    loaded: Option<Loaded>,
    /// The thread, if it is saved.
    thread: Option<String>,
    /// By agent, the notice of a failed attempt that may have been the last; if it was, the agent's error says the
    /// same.
    discarded: BTreeMap<Vec<String>, String>,
    /// Why the last attempt failed, so that the reason is not repeated.
    reason: String,
    /// Whether events were dropped because the output is read too slowly.
    is_behind: bool,
}

/// What was shown last; a blank line separates it from other things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastShown {
    Nothing,
    Text,
    /// Text of an earlier model call.
    Answer,
    Tools,
    Todos,
    SubAgents,
}

impl Live {
    /// Returns a view of a run of this thread, if it is saved.
    pub(crate) fn new(thread: Option<String>) -> Self {
        Self {
            screen: Screen::new(),
            style: Style::of_stdout(),
            last: LastShown::Nothing,
            running: BTreeMap::new(),
            todos: TodoView::default(),
            below: SubAgentView::default(),
            loaded: Some(Loaded::default()),
            thread,
            discarded: BTreeMap::new(),
            reason: String::new(),
            is_behind: false,
        }
    }

    /// Sets the state before the run: of the todo list and of what was loaded, only changes are shown.
    #[must_use]
    pub(crate) fn before(mut self, state: &State) -> Self {
        self.todos = TodoView::new(state.get::<Todos>().cloned().unwrap_or_default());
        self.loaded = Some(Loaded::before(state));
        self
    }

    fn switch_to(&mut self, kind: LastShown) -> io::Result<()> {
        if self.last != kind {
            self.screen.break_line()?;
            if self.last != LastShown::Nothing {
                self.screen.line("")?;
            }
            self.last = kind;
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        let begins = self.last != LastShown::Text;
        let text = if begins { text.trim_start() } else { text };
        if text.is_empty() {
            return Ok(());
        }
        self.switch_to(LastShown::Text)?;
        self.screen.text(text)
    }

    fn tool_line(&mut self, path: &[String], mark: &str, call: &str, remark: &str) -> io::Result<()> {
        let remark = if remark.is_empty() { String::new() } else { format!("  {}", self.style.dim(remark)) };
        let line = format!("{mark} {call}{remark}");
        if path.is_empty() {
            self.switch_to(LastShown::Tools)?;
            return self.screen.line(&line);
        }
        let lines = self.below.lines(path, [line], self.last == LastShown::SubAgents, self.style);
        self.show_below(&lines)
    }

    fn show_below(&mut self, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.switch_to(LastShown::SubAgents)?;
        lines.iter().try_for_each(|line| self.screen.line(line))
    }

    /// Shows a sub-agent's text and plan.
    fn sub_agent(&mut self, event: &Event) -> io::Result<()> {
        let there = self.last == LastShown::SubAgents;
        let lines = self.below.event(event, &self.running, there, self.style);
        self.show_below(&lines)
    }

    /// Shows the running tool calls in the status line.
    fn show_running(&mut self, progress: Option<&str>) -> io::Result<()> {
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
    fn show_loaded(&mut self) -> io::Result<()> {
        match self.loaded.take().and_then(|loaded| loaded.line()) {
            Some(line) => self.screen.note(&line),
            None => Ok(()),
        }
    }

    /// Whether a resumed run had its answer before this process showed anything.
    fn is_answered_before(&self, ending: &Ending, outcome: &Outcome) -> bool {
        outcome.stop.is_complete()
            && self.last != LastShown::Text
            && ending.tally.answers == 0
            && !outcome.text().trim().is_empty()
    }

    fn waiting(&mut self, what: &str) -> io::Result<()> {
        let line = self.style.dim(&format!("… {what}"));
        self.screen.status(&line)
    }

    fn discarded(&mut self, path: &[String], reason: &str, retry_after_ms: u64) -> io::Result<()> {
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
}

impl Renderer for Live {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let path: &[String] = &event.path;
        let over = matches!(
            event.kind,
            EventKind::RunFailed { .. } | EventKind::AgentFailed { .. } | EventKind::AgentFinished { .. }
        );
        if let Some(notice) = self.discarded.remove(path).filter(|_| !over) {
            self.screen.note(&notice)?;
        }
        let depth = event.path.len();
        if depth > 0 {
            self.sub_agent(event)?;
        }
        match &event.kind {
            EventKind::ModelStarted { .. } if depth == 0 => {
                if self.last == LastShown::Text {
                    self.last = LastShown::Answer;
                }
                self.show_loaded()?;
                self.waiting("waiting for the model")
            }
            EventKind::ModelFinished { .. } => {
                self.reason.clear();
                Ok(())
            }
            EventKind::TextDelta { text, .. } if depth == 0 => self.text(text),
            EventKind::ReasoningDelta { .. } if depth == 0 => self.waiting("thinking"),
            EventKind::ToolCallDelta { name: Some(name), .. } if depth == 0 => {
                self.waiting(&format!("preparing {}", first_line(name, 80)))
            }
            EventKind::AttemptDiscarded { reason, retry_after_ms, .. } => self.discarded(path, reason, *retry_after_ms),
            EventKind::ToolStarted { call, name, args, .. } => {
                self.running.insert(call.clone(), tool_line::call(name, args));
                self.show_running(None)
            }
            EventKind::ToolProgress { text, .. } => self.show_running(Some(text)),
            EventKind::ToolFinished { call, name, error, text, .. } => {
                let shown = self.running.remove(call).unwrap_or_else(|| name.clone());
                if let Some(failure) = tool_line::failure(name, *error, text) {
                    let mark = self.style.red("✗");
                    self.tool_line(&event.path, &mark, &shown, &failure)?;
                } else if name != WRITE_TODOS {
                    let mark = self.style.green("✓");
                    self.tool_line(&event.path, &mark, &shown, "")?;
                }
                self.show_running(None)
            }
            EventKind::StateChanged { channel, update } if channel == "todos" && depth == 0 => {
                let lines = self.todos.update(update, self.style);
                if lines.is_empty() {
                    return Ok(());
                }
                self.switch_to(LastShown::Todos)?;
                lines.iter().try_for_each(|line| self.screen.line(line))
            }
            EventKind::Lagged { dropped } => {
                self.is_behind = true;
                self.screen
                    .note(&format!("{dropped} events are not shown: the reader of this output is slower than the run"))
            }
            // The outcome of the run includes this message.
            EventKind::Middleware(MiddlewareEvent::Hook { .. }) if hook_end(event).is_some() => Ok(()),
            EventKind::Middleware(MiddlewareEvent::Hook { message, .. }) => {
                self.screen.note(&first_line(message, MAX_WARNING_CHARS))
            }
            EventKind::Middleware(MiddlewareEvent::CommandOutput { command, text }) => {
                let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
                self.show_running(Some(&format!("{command}: {last}")))
            }
            EventKind::Middleware(MiddlewareEvent::CommandEnded { command, end }) => {
                self.screen.note(&first_line(&format!("{command} has ended: {end}"), MAX_WARNING_CHARS))
            }
            EventKind::Middleware(done) => {
                if let Some(notice) = notice(done) {
                    return self.screen.note(&first_line(&notice, MAX_WARNING_CHARS));
                }
                let problems = match (&event.kind, &mut self.loaded) {
                    (_, Some(loaded)) => loaded.take(event).unwrap_or_default(),
                    // A server lost later is reported too.
                    (EventKind::Middleware(MiddlewareEvent::McpServer { problem: Some(problem), .. }), None) => {
                        vec![problem.clone()]
                    }
                    _ => Vec::new(),
                };
                problems.iter().try_for_each(|problem| self.screen.note(&first_line(problem, MAX_WARNING_CHARS)))
            }
            _ => Ok(()),
        }
    }

    fn notice(&mut self, text: &str) -> io::Result<()> {
        self.screen.note(text)
    }

    fn pause(&mut self) -> io::Result<()> {
        self.screen.break_line()
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        self.screen.break_line()?;
        if self.last != LastShown::Nothing {
            self.screen.line("")?;
        }
        // If nothing has happened, the error is printed alone.
        if ending.result.is_err() && self.last == LastShown::Nothing && ending.tally == Tally::default() {
            return Ok(());
        }
        // The events that were not shown may include parts of the answer.
        if let Ok(outcome) = &ending.result
            && !ending.is_cut_short(outcome)
            && (self.is_behind || self.is_answered_before(ending, outcome))
        {
            self.screen.text(outcome.text().trim_end())?;
            self.screen.break_line()?;
            self.screen.line("")?;
        }
        self.screen.line(&self.style.dim(&summary::summary(ending, self.thread.as_deref())))
    }
}
