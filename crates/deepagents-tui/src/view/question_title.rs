//! Renders the title of a question.

use deepagents::{ActionRequest, DecisionKind};
use ratatui::text::{Line, Span};

use crate::app::App;
use crate::app::event::PendingApproval;
use crate::app::transcript::text_arg;
use crate::text::{cut_middle, shorten, visible, width, wrap};

/// The tool with which the agent asks the user.
pub(super) const ASK_USER: &str = "ask_user";
/// The tool that runs commands.
pub(super) const EXECUTE: &str = "execute";
/// Maximum characters of a sub-agent's task.
const MAX_TASK_CHARS: usize = 100;
/// Columns of a file's path that take precedence over the number of the question.
const MIN_PATH_COLUMNS: usize = 16;

/// Renders the title of a question.
pub(super) fn question_title(
    app: &App,
    question: &PendingApproval,
    (at, of): (usize, usize),
    columns: usize,
) -> Vec<Line<'static>> {
    let request = &question.request;
    let file = app.theme.exact(text_arg(&request.args, "file_path"));
    let what = match request.tool.as_str() {
        EXECUTE => "Run this command?".to_owned(),
        "write_file" if question.file.is_some() => format!("Overwrite {file}?"),
        "write_file" => format!("Write the new file {file}?"),
        "edit_file" => format!("Change {file}?"),
        "delete" => format!("Delete {file}?"),
        ASK_USER => "The agent asks you".to_owned(),
        tool if !request.allowed.contains(&DecisionKind::Approve) => format!("{} asks you", app.theme.exact(tool)),
        tool => format!("Call {}?", app.theme.exact(tool)),
    };
    let mut spans = vec![Span::styled("? ", app.theme.warn), Span::styled(what, app.theme.bold)];
    if of > 1 {
        spans.push(Span::styled(format!("  ({at} of {of})"), app.theme.accent));
    }
    if !request.call.path.is_empty() {
        spans.push(Span::styled(format!("  asked by {}", visible(&asking_agent(app, question))), app.theme.dim));
    }
    if request.tool == EXECUTE
        && let Some(connected) = &app.session.connected
        && !connected.sandbox.is_empty()
    {
        spans.push(Span::styled(format!("  {}", connected.sandbox), app.theme.dim));
    }
    wrap(&Line::from(spans), columns, "  ")
}

/// Describes the sub-agent that asks.
fn asking_agent(app: &App, question: &PendingApproval) -> String {
    let ActionRequest { call, agent, .. } = &question.request;
    let known = app.live.agents.get(&call.path).map(|agent| agent.work.name.clone());
    let name = agent.clone().or(known).filter(|name| !name.is_empty()).unwrap_or_else(|| "a sub-agent".to_owned());
    // Several sub-agents of a kind may be running.
    let task = app.live.task_at(&call.path).or(question.task.as_deref()).unwrap_or_default();
    let task = shorten(task, MAX_TASK_CHARS);
    if task.is_empty() { name } else { format!("{name} for “{task}”") }
}

/// Renders the title of a question about a file in one row, and returns whether it has the whole path. If there is no room
/// for the path, its middle is left out. Returns `None` for other questions.
pub(super) fn short_title(
    app: &App,
    question: &PendingApproval,
    (at, of): (usize, usize),
    columns: usize,
) -> Option<(Line<'static>, bool)> {
    let before = match (question.request.tool.as_str(), &question.file) {
        ("write_file", Some(_)) => "Overwrite ",
        ("write_file", None) => "New file ",
        ("edit_file", _) => "Change ",
        ("delete", _) => "Delete ",
        _ => return None,
    };
    let path = app.theme.exact(text_arg(&question.request.args, "file_path"));
    // The words give way to the path first.
    let least = width(&path).min(MIN_PATH_COLUMNS / 2);
    let before = if columns < width("? ") + width(before) + width("?") + least { "" } else { before };
    let number = if of > 1 { format!("  ({at} of {of})") } else { String::new() };
    let room = columns.saturating_sub(width("? ") + width(before) + width("?"));
    // The number of the question gives way to the path.
    let numbered = room.saturating_sub(width(&number));
    let has_number = numbered >= width(&path).min(MIN_PATH_COLUMNS);
    let cut = cut_middle(&path, if has_number { numbered } else { room });
    let mut line =
        Line::from(vec![Span::styled("? ", app.theme.warn), Span::styled(format!("{before}{cut}?"), app.theme.bold)]);
    if has_number {
        line.spans.push(Span::styled(number, app.theme.accent));
    }
    Some((line, cut == path))
}
