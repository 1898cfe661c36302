//! The live view for people.

mod parts;

use std::collections::BTreeMap;
use std::io;

use deepagents::channels::Todos;
use deepagents::core::tool::CallId;
use deepagents::{Event, EventKind, State};

use super::style::{Style, first_line};
use super::sub_agents::SubAgentView;
use super::todos::TodoView;
use super::{Ending, Loaded, Renderer, Tally, summary, tool_line};
use crate::output::Screen;

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
    /// Whether a part of the answer that is being written has been shown.
    is_begun: bool,
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
            is_begun: false,
        }
    }

    /// Sets the state before the run: of the todo list and of what was loaded, only changes are shown.
    #[must_use]
    pub(crate) fn before(mut self, state: &State) -> Self {
        self.todos = TodoView::new(state.get::<Todos>().cloned().unwrap_or_default());
        self.loaded = Some(Loaded::before(state));
        self
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
            EventKind::ModelStarted { .. } if depth == 0 => self.model_started(),
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
                self.tool_finished(path, call, name, *error, text)
            }
            EventKind::StateChanged { channel, update } if channel == "todos" && depth == 0 => {
                let lines = self.todos.update(update, self.style);
                self.show_lines(LastShown::Todos, &lines)
            }
            EventKind::Lagged { dropped } => {
                self.is_behind = true;
                self.screen
                    .note(&format!("{dropped} events are not shown: the reader of this output is slower than the run"))
            }
            EventKind::Middleware(done) => self.middleware(event, done),
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
