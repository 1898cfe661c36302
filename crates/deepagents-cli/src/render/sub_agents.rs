//! The text and plans of sub-agents, indented below the agent that runs them.

use std::collections::BTreeMap;

use deepagents::core::tool::CallId;
use deepagents::{Event, EventKind};

use super::style::{Style, count, first_line};
use super::todos::TodoView;

/// Maximum number of characters shown of a line.
const MAX_LINE_CHARS: usize = 160;
/// Maximum number of lines shown of an answer, which is meant for the parent agent.
const MAX_LINES: usize = 20;

/// Sub-agents by path, and the one shown last. Several work concurrently, so their text is shown line by line.
#[derive(Debug, Default)]
pub(super) struct SubAgentView {
    agents: BTreeMap<Vec<String>, SubAgent>,
    shown: Vec<String>,
}

#[derive(Debug, Default)]
struct SubAgent {
    head: String,
    /// The incomplete line at the end.
    open: String,
    /// Number of lines in the current answer.
    lines: usize,
    todos: TodoView,
}

impl SubAgent {
    /// Returns the lines of a text that are shown.
    fn text_lines(&mut self, text: &str) -> Vec<String> {
        let mut lines: Vec<String> =
            text.lines().map(|line| first_line(line, MAX_LINE_CHARS)).filter(|line| !line.is_empty()).collect();
        let room = MAX_LINES.saturating_sub(self.lines);
        self.lines += lines.len();
        lines.truncate(room);
        lines
    }

    /// Ends an answer: returns its last line, and how many lines were not shown.
    fn finished(&mut self, style: Style) -> Vec<String> {
        let open = std::mem::take(&mut self.open);
        let mut lines = self.text_lines(&open);
        match std::mem::take(&mut self.lines).saturating_sub(MAX_LINES) {
            0 => {}
            more => lines.push(style.dim(&format!("… {}", count(more as u64, "more line")))),
        }
        lines
    }
}

impl SubAgentView {
    /// Returns the lines that an event adds. `there` says whether the sub-agent shown last is still directly above.
    pub(super) fn event(
        &mut self,
        event: &Event,
        running: &BTreeMap<CallId, String>,
        there: bool,
        style: Style,
    ) -> Vec<String> {
        let path: &[String] = &event.path;
        let agent = self.agents.entry(path.to_vec()).or_default();
        let lines: Vec<String> = match &event.kind {
            EventKind::AgentStarted { name } => {
                agent.head = head(name, path, running);
                Vec::new()
            }
            EventKind::TextDelta { text, .. } => {
                agent.open += text;
                match agent.open.rfind('\n').map(|end| agent.open.split_off(end + 1)) {
                    Some(rest) => {
                        let whole = std::mem::replace(&mut agent.open, rest);
                        agent.text_lines(&whole)
                    }
                    None => Vec::new(),
                }
            }
            EventKind::AttemptDiscarded { .. } => {
                agent.open.clear();
                agent.lines = 0;
                Vec::new()
            }
            EventKind::ModelFinished { .. } => agent.finished(style),
            EventKind::StateChanged { channel, update } if channel == "todos" => agent.todos.update(update, style),
            EventKind::AgentFailed { error, .. } => {
                vec![format!("{} {}", style.red("✗"), first_line(error, MAX_LINE_CHARS))]
            }
            _ => Vec::new(),
        };
        self.lines(path, lines, there, style)
    }

    /// Returns lines of a sub-agent, below its name if another was shown last.
    pub(super) fn lines(
        &mut self,
        path: &[String],
        lines: impl IntoIterator<Item = String>,
        there: bool,
        style: Style,
    ) -> Vec<String> {
        let indent = "  ".repeat(path.len());
        let mut out: Vec<String> = lines.into_iter().map(|line| format!("{indent}{line}")).collect();
        if !out.is_empty() && (!there || self.shown != path) {
            self.shown = path.to_vec();
            let head = self.agents.get(path).map(|agent| agent.head.clone()).unwrap_or_default();
            out.insert(0, format!("{}{}", "  ".repeat(path.len().saturating_sub(1)), style.bold(&format!("▸ {head}"))));
        }
        out
    }
}

/// Returns a sub-agent's name and task, as the call that runs it gives them.
fn head(name: &str, path: &[String], running: &BTreeMap<CallId, String>) -> String {
    let name = first_line(name, MAX_LINE_CHARS);
    let call = running.iter().find(|(call, _)| call.child_path("task") == path);
    match call.and_then(|(_, shown)| shown.split_once(' ')) {
        Some((_, task)) => format!("{name}: {task}"),
        None => name,
    }
}
