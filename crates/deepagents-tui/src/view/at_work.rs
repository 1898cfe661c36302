//! Work in progress: the user's shell command, calls and sub-agents.

use deepagents::channels::TodoStatus;
use ratatui::text::{Line, Span};

use super::calls::call_title;
use super::items::{Detail, dim, item_lines, todo_lines};
use crate::app::live::RunningCall;
use crate::app::{App, Work};
use crate::duration;
use crate::key_map::Action;
use crate::text::{clip, count, grouped, shorten, visible};

/// Lines of output shown while a command runs.
const OUTPUT_LINES: usize = 4;

/// Renders calls, sub-agents, the latest thought and the to-do list.
pub(super) fn activity(app: &App, columns: usize, rows: usize) -> Vec<Line<'static>> {
    if !app.can_interrupt() || rows == 0 {
        return Vec::new();
    }
    let theme = app.theme;
    let mut lines = at_work(app, columns, Detail::Brief(&app.keys.name(Action::Details)));
    if !app.live.thinking.is_empty() {
        let words = app.live.thinking.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let text = format!("✻ {}", shorten(&visible(words), columns));
        lines.push(clip(&dim(text, theme), columns));
    }
    lines.truncate(rows);
    let room = rows - lines.len();
    // A completed to-do list is not shown; `/todos` shows it.
    let has_open = app.todos.iter().any(|todo| todo.status != TodoStatus::Completed);
    if has_open && room > 0 {
        lines.extend(todo_lines(&app.todos, room.min(8), columns, theme));
    }
    lines
}

/// Renders the user's shell command, calls and sub-agents, with the end of their output or all that is kept of it.
pub(super) fn at_work(app: &App, columns: usize, detail: Detail<'_>) -> Vec<Line<'static>> {
    let output = |text: &str, most: usize| match detail {
        Detail::Brief(_) => last_lines(text, most, columns, app),
        Detail::Full => last_lines(text, usize::MAX, columns, app),
    };
    let mut lines = Vec::new();
    let own = match &app.work {
        Work::Shell(run) => Some(run),
        _ => app.background_shell.as_ref(),
    };
    if let Some(run) = own {
        lines.push(clip(&Line::from(format!("$ {}", visible(&run.command))), columns));
        lines.extend(output(&run.output, OUTPUT_LINES * 2));
    }
    let open: Vec<_> = app.live.calls.iter().filter(|(call, _)| call.path.is_empty()).collect();
    // The question shows the call that it is about.
    let asked = app.questions.current().map(|question| &question.request.call);
    for (call, running) in &open {
        if Some(*call) == asked {
            continue;
        }
        if let Some(item) = &running.done {
            let most = if detail == Detail::Full { usize::MAX } else { 1 };
            lines.extend(item_lines(item, columns, app.theme, detail).into_iter().take(most));
        } else if running.call.name == "task" {
            lines.extend(agent(app, &call.child_path("task"), running, 0, columns));
        } else {
            lines.push(running_call(app, running, 0, columns));
            lines.extend(output(&running.call.result, OUTPUT_LINES));
        }
    }
    lines
}

fn running_call(app: &App, running: &RunningCall, depth: usize, columns: usize) -> Line<'static> {
    let title = call_title(&running.call.name, &running.call.args);
    let elapsed = app.elapsed_since(running.since);
    let mut spans = vec![
        Span::raw("  ".repeat(depth)),
        Span::styled("◌ ", app.theme.warn),
        Span::raw(shorten(&title, columns.saturating_sub(14 + depth * 2).max(8))),
    ];
    if elapsed.as_secs() > 0 {
        spans.push(Span::styled(format!("  {}", duration::show(elapsed)), app.theme.dim));
    }
    clip(&Line::from(spans), columns)
}

/// Renders a sub-agent, its current activity and the sub-agents below it.
fn agent(app: &App, path: &[String], running: &RunningCall, depth: usize, columns: usize) -> Vec<Line<'static>> {
    let Some(agent_at_work) = app.live.agents.get(path) else {
        return vec![running_call(app, running, depth, columns)];
    };
    let work = &agent_at_work.work;
    let indent = "  ".repeat(depth);
    let elapsed = duration::show(app.elapsed_since(agent_at_work.since));
    let cost = if work.dollars > 0.0 { format!(" · ${:.4}", work.dollars) } else { String::new() };
    let facts = format!("  {} · {} tokens{cost} · {elapsed}", count(work.calls as u64, "call"), grouped(work.tokens));
    let name = if work.name.is_empty() { "sub-agent" } else { &work.name };
    let room = columns.saturating_sub(facts.len() + name.len() + indent.len() + 6);
    let head = Line::from(vec![
        Span::raw(indent.clone()),
        Span::styled("◌ ", app.theme.warn),
        Span::styled(visible(name).into_owned(), app.theme.bold),
        Span::raw(format!(" {}", shorten(&visible(&work.task), room.max(10)))),
        Span::styled(facts, app.theme.dim),
    ]);
    let mut lines = vec![clip(&head, columns)];
    let below = app.live.calls.iter().filter(|(call, _)| call.path == path);
    let mut quiet = true;
    for (call, running) in below {
        quiet = false;
        if running.call.name == "task" {
            lines.extend(agent(app, &call.child_path("task"), running, depth + 1, columns));
        } else {
            lines.push(running_call(app, running, depth + 1, columns));
        }
    }
    if quiet {
        // Without a running call, show a retry, the current answer or the last call.
        let words = agent_at_work.last_line();
        let last = match &agent_at_work.retry {
            Some(retry) => retry.describe(app.now.0),
            None if words.is_empty() => last_call(work),
            None => words.to_owned(),
        };
        if !last.is_empty() {
            let text = format!("{indent}  └ {}", shorten(&visible(&last), columns));
            lines.push(clip(&dim(text, app.theme), columns));
        }
    }
    lines
}

fn last_call(work: &crate::app::transcript::AgentWork) -> String {
    use crate::app::transcript::Item;
    let title = |item: &Item| match item {
        Item::Call(call) => Some(call_title(&call.name, &call.args)),
        _ => None,
    };
    work.items.iter().rev().find_map(title).unwrap_or_default()
}

fn last_lines(text: &str, most: usize, columns: usize, app: &App) -> Vec<Line<'static>> {
    let text = visible(text.trim_end());
    let lines: Vec<&str> = text.lines().rev().take(most).collect();
    let line = |line: &&str| clip(&dim(format!("  {line}"), app.theme), columns);
    lines.iter().rev().map(line).collect()
}
