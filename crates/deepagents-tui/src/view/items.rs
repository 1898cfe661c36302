//! Renders finished parts of the conversation, folded or in full.

use deepagents::channels::{Todo, TodoStatus};
use ratatui::text::{Line, Span};

use super::calls::{HEAD_LINES, agent, call_lines, titled};
use crate::app::transcript::Item;
use crate::text::{count, hard_wrap, markdown, shorten, visible, wrap};
use crate::theme::Theme;

/// Whether long parts are shown in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail<'a> {
    /// Folded, with the amount left out and the key that shows it.
    Brief(&'a str),
    /// In full.
    Full,
}

/// Lines shown of a folded user message.
const MESSAGE_LINES: usize = 12;
/// Renders a part of the conversation.
pub(crate) fn item_lines(item: &Item, columns: usize, theme: Theme, fold: Detail<'_>) -> Vec<Line<'static>> {
    let columns = columns.max(2);
    match item {
        Item::Head { lines } => {
            let styled = |(at, line): (usize, &String)| {
                Line::from(Span::styled(visible(line).into_owned(), if at == 0 { theme.heading } else { theme.dim }))
            };
            lines.iter().enumerate().map(styled).flat_map(|line| hard_wrap(&line, columns, "")).collect()
        }
        Item::User(text) => user(text, columns, theme, fold),
        Item::Answer(text) => markdown(text.trim(), columns, theme),
        Item::Thinking(text) => thinking(text, columns, theme, fold),
        Item::Call(call) => call_lines(call, columns, theme, fold),
        Item::Agent(work) => agent(work, columns, theme, fold),
        Item::Shell { command, output, code, shared } => {
            let mut lines = titled("$", command, *code == Some(0), columns, (theme, fold));
            lines.extend(indented(&folded(output, columns, theme, fold, HEAD_LINES, 20)));
            let private = if *shared { "" } else { " · not shown to the model" };
            match code {
                Some(0) if private.is_empty() => {}
                Some(code) => lines.push(dim(&format!("  exit code {code}{private}"), theme)),
                None => lines.push(dim(&format!("  stopped{private}"), theme)),
            }
            lines
        }
        Item::Todos(todos) => todo_lines(todos, usize::MAX, columns, theme),
        Item::Picture(picture) => {
            let mark = if theme.spoken { "Note: " } else { "· " };
            prefixed(&picture.about, mark, theme.dim, theme.dim, columns)
        }
        Item::Note { text, bad } => {
            let style = if *bad { theme.bad } else { theme.dim };
            let mark = match (theme.spoken, *bad) {
                (true, true) => "Problem: ",
                (true, false) => "Note: ",
                (false, true) => "! ",
                (false, false) => "· ",
            };
            prefixed(text, mark, style, style, columns)
        }
        Item::FileDiff { title, old, new } => {
            let mut lines = vec![dim(&format!("· {}", visible(title)), theme)];
            let diff = crate::text::diff_lines(old, new, true, theme);
            let room = columns.saturating_sub(2).max(2);
            let diff: Vec<Line<'static>> = diff.iter().flat_map(|line| hard_wrap(line, room, "        ")).collect();
            lines.extend(indented(&diff));
            lines
        }
        Item::Card { title, body } => {
            let mut lines = vec![Line::from(Span::styled(visible(title).into_owned(), theme.heading))];
            let text = visible(body.trim_end());
            lines.extend(text.lines().flat_map(|line| wrap(&Line::from(format!("  {line}")), columns, "    ")));
            lines
        }
    }
}

pub(super) fn dim(text: &str, theme: Theme) -> Line<'static> {
    Line::from(Span::styled(text.to_owned(), theme.dim))
}

/// Renders lines of text after a mark.
fn prefixed(
    text: &str,
    mark: &'static str,
    mark_style: ratatui::style::Style,
    style: ratatui::style::Style,
    columns: usize,
) -> Vec<Line<'static>> {
    let text = visible(text.trim_end());
    let indent = crate::text::width(mark);
    let room = columns.saturating_sub(indent).max(2);
    let mut out = Vec::new();
    for line in text.lines() {
        for part in wrap(&Line::from(Span::styled(line.to_owned(), style)), room, "") {
            let lead = if out.is_empty() { Span::styled(mark, mark_style) } else { Span::raw(" ".repeat(indent)) };
            let mut spans = vec![lead];
            spans.extend(part.spans);
            out.push(Line::from(spans));
        }
    }
    out
}

fn user(text: &str, columns: usize, theme: Theme, fold: Detail<'_>) -> Vec<Line<'static>> {
    let mark = if theme.spoken { "You: " } else { "› " };
    let Detail::Brief(key) = fold else { return prefixed(text, mark, theme.user, theme.bold, columns) };
    // Lines that are not shown are not laid out: a message may be a whole log.
    let text = text.trim_end();
    let (all, head) = (text.lines().count(), text.lines().take(MESSAGE_LINES + 2).collect::<Vec<_>>());
    let mut lines = prefixed(&head.join("\n"), mark, theme.user, theme.bold, columns);
    if all > head.len() || lines.len() > MESSAGE_LINES + 1 {
        let more = lines.len().saturating_sub(MESSAGE_LINES) + all - head.len();
        lines.truncate(MESSAGE_LINES);
        lines.push(dim(&format!("  … {} ({key})", count(more as u64, "more line")), theme));
    }
    lines
}

fn thinking(text: &str, columns: usize, theme: Theme, fold: Detail<'_>) -> Vec<Line<'static>> {
    let Detail::Brief(key) = fold else {
        return prefixed(text, "✻ ", theme.dim, theme.dim, columns);
    };
    let lines = count(text.lines().count() as u64, "line");
    vec![crate::text::clip(
        &dim(&format!("✻ thought: {} ({lines}, {key})", shorten(&visible(text), 60)), theme),
        columns,
    )]
}

/// Renders output, broken at the last column.
pub(super) fn folded(
    text: &str,
    columns: usize,
    theme: Theme,
    fold: Detail<'_>,
    head: usize,
    tail: usize,
) -> Vec<Line<'static>> {
    laid_out(hard_wrap, text, columns, theme, fold, (head, tail))
}

/// Renders text, wrapped at words.
pub(super) fn folded_words(
    text: &str,
    columns: usize,
    theme: Theme,
    fold: Detail<'_>,
    head: usize,
    tail: usize,
) -> Vec<Line<'static>> {
    laid_out(wrap, text, columns, theme, fold, (head, tail))
}

/// Renders lines; if folded, the amount left out is shown in the middle.
fn laid_out(
    broken: fn(&Line<'_>, usize, &str) -> Vec<Line<'static>>,
    text: &str,
    columns: usize,
    theme: Theme,
    fold: Detail<'_>,
    (head, tail): (usize, usize),
) -> Vec<Line<'static>> {
    let text = visible(text.trim_end_matches('\n'));
    let room = columns.saturating_sub(4).max(2);
    let lay_out = |line: &str| broken(&dim(line, theme), room, "");
    let total = text.lines().count();
    let Detail::Brief(key) = fold else { return text.lines().flat_map(lay_out).collect() };
    if total <= head + tail + 1 {
        let mut lines: Vec<Line<'static>> = text.lines().flat_map(lay_out).collect();
        let most = (head + tail) * 4;
        if lines.len() > most {
            lines.truncate(most);
            lines.push(dim(&format!("… more of it ({key})"), theme));
        }
        return lines;
    }
    let short = |line: &str| crate::text::clip(&dim(line, theme), room);
    let mut lines: Vec<Line<'static>> = text.lines().take(head).map(short).collect();
    lines.push(dim(&format!("… {} ({key})", count((total - head - tail) as u64, "more line")), theme));
    lines.extend(text.lines().skip(total - tail).map(short));
    lines
}

pub(super) fn indented(lines: &[Line<'static>]) -> Vec<Line<'static>> {
    let indent = |line: &Line<'static>| {
        let mut spans = vec![Span::raw("  ")];
        spans.extend(line.spans.iter().cloned());
        Line::from(spans)
    };
    lines.iter().map(indent).collect()
}

/// Renders the to-do list in at most `most` lines. Completed items are left out first.
pub(crate) fn todo_lines(todos: &[Todo], most: usize, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let first = todos.iter().position(|todo| todo.status != TodoStatus::Completed).unwrap_or(0);
    // If not all items fit, the last line says how many are hidden.
    let (all, is_cut) = (most, todos.len() > most && most > 2);
    let most = if is_cut { all - 1 } else { all };
    let from = if todos.len() <= most { 0 } else { first.min(todos.len() - most) };
    let shown = todos.iter().skip(from).take(most).map(|todo| {
        let (mark, mark_style, style) = match todo.status {
            TodoStatus::Completed if theme.spoken => ("Done: ", theme.good, theme.dim),
            TodoStatus::InProgress if theme.spoken => ("Now: ", theme.warn, theme.bold),
            TodoStatus::Pending if theme.spoken => ("Open: ", theme.dim, ratatui::style::Style::new()),
            TodoStatus::Completed => ("☑ ", theme.good, theme.dim),
            TodoStatus::InProgress => ("◐ ", theme.warn, theme.bold),
            TodoStatus::Pending => ("☐ ", theme.dim, ratatui::style::Style::new()),
        };
        let text = shorten(&visible(&todo.content), 300);
        crate::text::clip(&Line::from(vec![Span::styled(mark, mark_style), Span::styled(text, style)]), columns)
    });
    let hidden = || todos.iter().take(from).chain(todos.iter().skip(from + most));
    let more = is_cut.then(|| {
        let done = hidden().filter(|todo| todo.status == TodoStatus::Completed).count();
        let text = format!("… {} more: {done} done, {} open (/todos)", hidden().count(), hidden().count() - done);
        crate::text::clip(&dim(&text, theme), columns)
    });
    shown.chain(more).collect()
}
