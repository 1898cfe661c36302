//! Renders finished parts of the conversation, folded or in full.

use deepagents::channels::{Todo, TodoStatus};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::calls::{HEAD_LINES, agent, call_lines, titled};
use crate::app::transcript::Item;
use crate::text::{
    Break, clip, count, diff_lines, hard_wrap, line_width, markdown, rows, shorten, visible, width, wrap,
};
use crate::theme::Theme;

/// Whether long parts are shown in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail<'a> {
    /// Folded, with the amount left out and the key that shows it.
    Brief(&'a str),
    /// In full.
    Full,
}

/// How a part of the conversation is laid out.
#[derive(Clone, Copy)]
pub(super) struct Layout<'a> {
    pub(super) columns: usize,
    pub(super) theme: Theme,
    pub(super) detail: Detail<'a>,
}

/// The remark below an answer that broke off.
const CUT_ANSWER: &str = "… the answer broke off here; the model does not see this part";
/// Lines shown of a folded user message.
const MESSAGE_LINES: usize = 12;

/// Renders a part of the conversation, in lines of at most `columns` columns.
pub(crate) fn item_lines(item: &Item, columns: usize, theme: Theme, detail: Detail<'_>) -> Vec<Line<'static>> {
    let columns = columns.max(2);
    let mut lines = lay_out(item, Layout { columns, theme, detail });
    // Remarks such as the number of hidden lines may be longer.
    if lines.iter().any(|line| is_wider(line, columns)) {
        let fit = |line: Line<'static>| if is_wider(&line, columns) { wrap(&line, columns, "  ") } else { vec![line] };
        lines = lines.into_iter().flat_map(fit).collect();
    }
    lines
}

fn is_wider(line: &Line<'_>, columns: usize) -> bool {
    // Only tabs have more columns than bytes.
    let is_short = line.spans.iter().map(|span| span.content.len()).sum::<usize>() <= columns;
    let has_tab = || line.spans.iter().any(|span| span.content.contains('\t'));
    (!is_short || has_tab()) && line_width(line) > columns
}

fn lay_out(item: &Item, layout: Layout<'_>) -> Vec<Line<'static>> {
    let Layout { columns, theme, detail } = layout;
    match item {
        Item::Head { lines } => {
            let styled = |(at, line): (usize, &String)| {
                Line::from(Span::styled(visible(line).into_owned(), if at == 0 { theme.heading } else { theme.dim }))
            };
            lines.iter().enumerate().map(styled).flat_map(|line| hard_wrap(&line, columns, "")).collect()
        }
        Item::User(text) => user(text, layout),
        Item::Answer(text) => markdown(text.trim(), columns, theme),
        Item::CutAnswer(text) => {
            let mut lines = markdown(text.trim(), columns, theme);
            lines.push(dim(CUT_ANSWER, theme));
            lines
        }
        Item::Thinking(text) => match detail {
            Detail::Full => prefixed(text, "✻ ", theme.dim, theme.dim, columns),
            Detail::Brief(key) => {
                let lines = count(text.lines().count() as u64, "line");
                let text = format!("✻ thought: {} ({lines}, {key})", shorten(&visible(text), 60));
                vec![clip(&dim(text, theme), columns)]
            }
        },
        Item::Call(call) => call_lines(call, layout),
        Item::Agent(work) => agent(work, layout),
        Item::Shell { command, output, code, shared } => shell_lines(command, output, (*code, *shared), layout),
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
            let mut lines = vec![dim(format!("· {}", visible(title)), theme)];
            lines.extend(indented(wrapped_diff(&diff_lines(old, new, true, theme), columns)));
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

/// Renders a shell command of the user, its output and how it ended.
fn shell_lines(
    command: &str,
    output: &str,
    (code, shared): (Option<i32>, bool),
    layout: Layout<'_>,
) -> Vec<Line<'static>> {
    let mut lines = titled("$", command, code == Some(0), layout);
    lines.extend(indented(folded(output, Break::Anywhere, (HEAD_LINES, 20), layout)));
    let private = if shared { "" } else { " · not shown to the model" };
    match code {
        Some(0) if private.is_empty() => {}
        Some(code) => lines.push(dim(format!("  exit code {code}{private}"), layout.theme)),
        None => lines.push(dim(format!("  stopped{private}"), layout.theme)),
    }
    lines
}

pub(super) fn dim(text: impl Into<String>, theme: Theme) -> Line<'static> {
    Line::from(Span::styled(text.into(), theme.dim))
}

/// Renders the line that stands for those left out, which a key shows.
pub(super) fn more_lines(lines: usize, indent: &str, key: &str, theme: Theme) -> Line<'static> {
    dim(format!("{indent}… {} ({key})", count(lines as u64, "more line")), theme)
}

/// Wraps the lines of a diff, for which an indent is added.
pub(super) fn wrapped_diff(lines: &[Line<'static>], columns: usize) -> Vec<Line<'static>> {
    let room = columns.saturating_sub(2).max(2);
    lines.iter().flat_map(|line| hard_wrap(line, room, "        ")).collect()
}

/// Renders lines of text after a mark.
fn prefixed(text: &str, mark: &'static str, mark_style: Style, style: Style, columns: usize) -> Vec<Line<'static>> {
    let text = visible(text.trim_end());
    let indent = width(mark);
    let room = columns.saturating_sub(indent).max(2);
    let mut out = Vec::new();
    for line in text.lines() {
        for part in wrap(&Line::from(Span::styled(line.to_owned(), style)), room, "") {
            let lead = if out.is_empty() { Span::styled(mark, mark_style) } else { Span::raw(" ".repeat(indent)) };
            out.push(after(lead, part));
        }
    }
    out
}

fn user(text: &str, Layout { columns, theme, detail }: Layout<'_>) -> Vec<Line<'static>> {
    let mark = if theme.spoken { "You: " } else { "› " };
    let Detail::Brief(key) = detail else { return prefixed(text, mark, theme.user, theme.bold, columns) };
    // Lines that are not shown are not laid out: a message may be a whole log.
    let text = text.trim_end();
    let (all, head) = (text.lines().count(), text.lines().take(MESSAGE_LINES + 2).collect::<Vec<_>>());
    let mut lines = prefixed(&head.join("\n"), mark, theme.user, theme.bold, columns);
    if all > head.len() || lines.len() > MESSAGE_LINES + 1 {
        let more = lines.len().saturating_sub(MESSAGE_LINES) + all - head.len();
        lines.truncate(MESSAGE_LINES);
        lines.push(more_lines(more, "  ", key, theme));
    }
    lines
}

/// Renders text. If folded, only `head` lines of its start and `tail` of its end are shown.
pub(super) fn folded(
    text: &str,
    broken: Break,
    (head, tail): (usize, usize),
    Layout { columns, theme, detail }: Layout<'_>,
) -> Vec<Line<'static>> {
    let text = visible(text.trim_end_matches('\n'));
    let room = columns.saturating_sub(4).max(2);
    // A line may be very long, and only what is shown of it is laid out.
    let all = |most: usize| text.lines().flat_map(move |line| rows(&dim(line, theme), room, "", broken, most));
    let Detail::Brief(key) = detail else { return all(usize::MAX).collect() };
    let total = text.lines().count();
    if total <= head + tail + 1 {
        let most = (head + tail) * 4;
        let mut lines: Vec<Line<'static>> = all(most + 1).take(most + 1).collect();
        if lines.len() > most {
            lines.truncate(most);
            lines.push(dim(format!("… more of it ({key})"), theme));
        }
        return lines;
    }
    let short = |line: &str| clip(&dim(line, theme), room);
    let mut lines: Vec<Line<'static>> = text.lines().take(head).map(short).collect();
    lines.push(more_lines(total - head - tail, "", key, theme));
    lines.extend(text.lines().skip(total - tail).map(short));
    lines
}

/// Indents lines by two columns.
pub(super) fn indented(lines: Vec<Line<'static>>) -> impl Iterator<Item = Line<'static>> {
    lines.into_iter().map(|line| after(Span::raw("  "), line))
}

/// Puts a span before a line.
fn after(lead: Span<'static>, line: Line<'static>) -> Line<'static> {
    std::iter::once(lead).chain(line.spans).collect()
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
            TodoStatus::Pending if theme.spoken => ("Open: ", theme.dim, Style::new()),
            TodoStatus::Completed => ("☑ ", theme.good, theme.dim),
            TodoStatus::InProgress => ("◐ ", theme.warn, theme.bold),
            TodoStatus::Pending => ("☐ ", theme.dim, Style::new()),
        };
        let text = shorten(&visible(&todo.content), 300);
        clip(&Line::from(vec![Span::styled(mark, mark_style), Span::styled(text, style)]), columns)
    });
    let hidden = || todos.iter().take(from).chain(todos.iter().skip(from + most));
    let more = is_cut.then(|| {
        let done = hidden().filter(|todo| todo.status == TodoStatus::Completed).count();
        let text = format!("… {} more: {done} done, {} open (/todos)", hidden().count(), hidden().count() - done);
        clip(&dim(text, theme), columns)
    });
    shown.chain(more).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::app::transcript::{AgentWork, Call, Picture};

    #[test]
    fn no_line_is_wider_than_the_screen() {
        let long = "words of a 漢字 line\t".repeat(30);
        let lines = format!("{long}\n").repeat(40);
        let call =
            |name: &str, args, failed| Item::Call(Call { name: name.to_owned(), args, result: lines.clone(), failed });
        let work =
            AgentWork { task: lines.clone(), answer: lines.clone(), calls: 12, tokens: 12_345, ..AgentWork::default() };
        let items = [
            Item::Head { lines: vec![long.clone()] },
            Item::User(lines.clone()),
            Item::Answer(format!("{lines}\n- {long}\n\n```\n{lines}```\n\n| a | b |\n|---|---|\n| {long} | c |\n")),
            Item::Thinking(lines.clone()),
            call("execute", json!({"command": lines}), false),
            call("write_file", json!({"file_path": long, "content": lines}), false),
            call("read_file", json!({"file_path": long}), false),
            call("ls", json!({}), true),
            Item::FileDiff { title: long.clone(), old: lines.clone(), new: long.clone() },
            Item::Picture(Picture { about: long.clone(), data: None }),
            Item::Agent(work),
            Item::Shell { command: long.clone(), output: lines.clone(), code: Some(1), shared: false },
            Item::Note { text: lines.clone(), bad: true },
            Item::Card { title: long.clone(), body: lines.clone() },
        ];
        for item in &items {
            for columns in [4, 8, 20, 33, 80] {
                for detail in [Detail::Brief("Ctrl+O"), Detail::Full] {
                    let widest = item_lines(item, columns, Theme::plain(), detail).iter().map(line_width).max();
                    assert!(widest.is_some_and(|widest| widest <= columns), "{widest:?} of {columns}: {item:?}");
                }
            }
        }
    }
}
