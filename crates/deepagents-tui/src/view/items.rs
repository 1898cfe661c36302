//! Renders finished parts of the conversation, folded or in full.

use deepagents::channels::{Todo, TodoStatus};
use deepagents::middleware::filesystem::exit_failure;
use ratatui::text::{Line, Span};
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;

use crate::app::transcript::{AgentWork, Call, Item, text_arg};
use crate::duration;
use crate::text::{count, edit_diff, grouped, hard_wrap, markdown, new_file, shorten, visible, wrap};
use crate::theme::Theme;

/// Whether long parts are shown in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail<'a> {
    /// Folded, with the amount left out and the key that shows it.
    Brief(&'a str),
    /// In full.
    Full,
}

/// Lines shown of a folded result, at its start and at its end.
const HEAD: usize = 3;
const TAIL: usize = 3;
/// Lines shown of a folded change.
const CHANGE: usize = 16;
/// Lines shown of a folded user message.
const MESSAGE: usize = 12;
/// Lines shown of a sub-agent's folded answer.
const ANSWER: usize = 3;

/// Maximum lines of a call's title.
const TITLE_LINES: usize = 4;
/// Maximum characters of an argument in a call's title, and of a sub-agent's task.
const TITLE: usize = 200;
const TASK: usize = 300;

/// The arguments that describe a call best, in order.
const TELLING: [&str; 9] =
    ["command", "file_path", "path", "pattern", "query", "url", "description", "name", "content"];

/// Describes a call in one line.
pub(crate) fn call_title(name: &str, args: &Value) -> String {
    if name == "write_todos" {
        let items = args.get("todos").and_then(Value::as_array).map_or(0, Vec::len);
        return format!("{name} ({})", count(items as u64, "item"));
    }
    let arg = in_a_line(telling(args), TITLE);
    format!("{} {arg}", visible(name)).trim_end().to_owned()
}

/// Returns the argument that describes a call best.
fn telling(args: &Value) -> &str {
    let named = TELLING.iter().find_map(|key| args.get(key)?.as_str());
    named.or_else(|| args.as_object()?.values().find_map(Value::as_str)).unwrap_or_default()
}

/// Joins the lines of a text into one, with marks between them.
fn in_a_line(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    shorten(&visible(&lines.join(" ⏎ ")), most)
}

/// Renders the text that a title of `most` characters shows only in part: in full, or as the number of its lines.
fn rest_of_title(text: &str, most: usize, columns: usize, theme: Theme, fold: Detail<'_>) -> Vec<Line<'static>> {
    let text = text.trim();
    let is_whole = text.lines().count() <= 1 && text.graphemes(true).count() <= most;
    if is_whole {
        return Vec::new();
    }
    if let Detail::Brief(key) = fold {
        return vec![dim(&format!("  … {} in all ({key})", count(text.lines().count() as u64, "line")), theme)];
    }
    let room = columns.saturating_sub(2).max(2);
    let line = |line: &str| hard_wrap(&Line::from(Span::styled(visible(line).into_owned(), theme.dim)), room, "");
    indented(&text.lines().flat_map(line).collect::<Vec<_>>())
}

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
            lines.extend(indented(&folded(output, columns, theme, fold, HEAD, 20)));
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

fn dim(text: &str, theme: Theme) -> Line<'static> {
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
    let mut lines = prefixed(text, mark, theme.user, theme.bold, columns);
    if let Detail::Brief(key) = fold
        && lines.len() > MESSAGE + 1
    {
        let more = lines.len() - MESSAGE;
        lines.truncate(MESSAGE);
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
fn folded(text: &str, columns: usize, theme: Theme, fold: Detail<'_>, head: usize, tail: usize) -> Vec<Line<'static>> {
    laid_out(hard_wrap, text, columns, theme, fold, (head, tail))
}

/// Renders text, wrapped at words.
fn folded_words(
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

fn indented(lines: &[Line<'static>]) -> Vec<Line<'static>> {
    let indent = |line: &Line<'static>| {
        let mut spans = vec![Span::raw("  ")];
        spans.extend(line.spans.iter().cloned());
        Line::from(spans)
    };
    lines.iter().map(indent).collect()
}

/// Renders the head of a call: a mark and its title.
fn titled(
    name: &str,
    rest: &str,
    good: bool,
    columns: usize,
    (theme, fold): (Theme, Detail<'_>),
) -> Vec<Line<'static>> {
    let (mark, style) = match (good, theme.spoken) {
        (true, false) => ("● ", theme.good),
        (false, false) => ("✗ ", theme.bad),
        (true, true) => ("Done: ", theme.good),
        (false, true) => ("Failed: ", theme.bad),
    };
    let mut spans = vec![Span::styled(mark, style), Span::styled(visible(name).into_owned(), theme.bold)];
    if !rest.is_empty() {
        spans.push(Span::raw(format!(" {}", visible(&rest.replace('\n', " ⏎ ")))));
    }
    let mut lines = wrap(&Line::from(spans), columns, "    ");
    if let Detail::Brief(key) = fold
        && lines.len() > TITLE_LINES
    {
        lines.truncate(TITLE_LINES - 1);
        lines.push(dim(&format!("    … ({key})"), theme));
    }
    lines
}

fn call_lines(call: &Call, columns: usize, theme: Theme, fold: Detail<'_>) -> Vec<Line<'static>> {
    let title = call_title(&call.name, &call.args);
    let (name, rest) = title.split_once(' ').unwrap_or((&title, ""));
    let is_good = !call.failed && exit_failure(&call.name, &call.result).is_none();
    let mut lines = titled(name, rest, is_good, columns, (theme, fold));
    if call.name == "execute" || fold == Detail::Full {
        lines.extend(rest_of_title(telling(&call.args), TITLE, columns, theme, fold));
    }
    if call.failed {
        let text = if call.result.is_empty() { "it did not finish" } else { &call.result };
        lines.extend(indented(&folded_words(text, columns, theme, fold, 1, 6)));
        return lines;
    }
    match call.name.as_str() {
        "edit_file" | "write_file" => lines.extend(change(call, columns, theme, fold)),
        "write_todos" | "read_todos" if fold != Detail::Full => {}
        "read_file" | "ls" | "glob" | "grep" if fold != Detail::Full => {
            // Binary data has no lines; an image is rendered as its own part.
            if !call.result.is_empty() {
                let found = count(call.result.lines().count() as u64, "line");
                lines.push(dim(&format!("  {found}"), theme));
            }
        }
        _ => lines.extend(indented(&folded(&call.result, columns, theme, fold, HEAD, TAIL))),
    }
    lines
}

/// Renders the change of a file by a call.
fn change(call: &Call, columns: usize, theme: Theme, fold: Detail<'_>) -> Vec<Line<'static>> {
    let lines = change_lines(call, theme);
    let room = columns.saturating_sub(2).max(2);
    let lines: Vec<Line<'static>> = lines.iter().flat_map(|line| hard_wrap(line, room, "        ")).collect();
    let Detail::Brief(key) = fold else { return indented(&lines) };
    if lines.len() <= CHANGE {
        return indented(&lines);
    }
    let more = lines.len() - CHANGE;
    let mut shown = indented(lines.get(..CHANGE).unwrap_or_default());
    shown.push(dim(&format!("  … {} ({key})", count(more as u64, "more line")), theme));
    shown
}

/// Renders the diff of a file tool's call.
pub(crate) fn change_lines(call: &Call, theme: Theme) -> Vec<Line<'static>> {
    match call.name.as_str() {
        "edit_file" => {
            let (old, new) = (text_arg(&call.args, "old_string"), text_arg(&call.args, "new_string"));
            let all = call.args.get("replace_all").and_then(Value::as_bool).unwrap_or(false);
            edit_diff(call.file.as_deref(), old, new, all, theme)
        }
        _ => {
            let text = text_arg(&call.args, "content");
            match call.file.as_deref() {
                Some(file) => crate::text::diff_lines(file, text, true, theme),
                None => new_file(text, theme),
            }
        }
    }
}

fn agent(work: &AgentWork, columns: usize, theme: Theme, fold: Detail<'_>) -> Vec<Line<'static>> {
    let name = if work.name.is_empty() { "task" } else { &work.name };
    let mut lines = titled(name, &in_a_line(&work.task, TASK), !work.failed, columns, (theme, fold));
    if fold == Detail::Full {
        lines.extend(rest_of_title(&work.task, TASK, columns, theme, fold));
    }
    let mut facts = Vec::new();
    if work.calls > 0 {
        facts.push(count(work.calls as u64, "call"));
    }
    if work.tokens > 0 {
        facts.push(format!("{} tokens", grouped(work.tokens)));
    }
    if work.dollars > 0.0 {
        facts.push(format!("${:.4}", work.dollars));
    }
    facts.extend(work.elapsed.map(duration::show));
    if !facts.is_empty() {
        let key = match fold {
            Detail::Brief(key) => format!(" ({key})"),
            Detail::Full => String::new(),
        };
        lines.push(dim(&format!("  {}{key}", facts.join(" · ")), theme));
    }
    if fold == Detail::Full {
        for item in &work.items {
            lines.extend(indented(&item_lines(item, columns.saturating_sub(2), theme, Detail::Full)));
        }
        lines.extend(indented(&markdown(&work.answer, columns.saturating_sub(2), theme)));
        return lines;
    }
    lines.extend(indented(&folded_words(&work.answer, columns, theme, fold, ANSWER, 0)));
    lines
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
