//! Renders calls and the work of sub-agents, folded or in full.

use deepagents::middleware::filesystem::exit_failure;
use ratatui::text::{Line, Span};
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;

use super::items::{Detail, Layout, dim, folded, indented, item_lines, more_lines, wrapped_diff};
use crate::app::transcript::{AgentWork, Call, text_arg};
use crate::duration;
use crate::text::{
    Break, count, diff_lines, edit_diff, grouped, hard_wrap, markdown, new_file, shorten, visible, wrap,
};
use crate::theme::Theme;

/// Lines shown of a folded result, at its start and at its end.
pub(super) const HEAD_LINES: usize = 3;
const TAIL_LINES: usize = 3;
/// Lines shown of a folded change.
const CHANGE_LINES: usize = 16;
/// Lines shown of a sub-agent's folded answer.
const ANSWER_LINES: usize = 3;

/// Maximum lines of a call's title.
const MAX_TITLE_LINES: usize = 4;
/// Maximum characters of an argument in a call's title, and of a sub-agent's task.
const MAX_TITLE_CHARS: usize = 200;
const MAX_TASK_CHARS: usize = 300;

/// The arguments that describe a call best, in order.
const MAIN_ARGUMENTS: [&str; 9] =
    ["command", "file_path", "path", "pattern", "query", "url", "description", "name", "content"];

/// Describes a call in one line.
pub(crate) fn call_title(name: &str, args: &Value) -> String {
    if name == "write_todos" {
        let items = args.get("todos").and_then(Value::as_array).map_or(0, Vec::len);
        return format!("{name} ({})", count(items as u64, "item"));
    }
    let arg = in_a_line(main_argument(args), MAX_TITLE_CHARS);
    format!("{} {arg}", visible(name)).trim_end().to_owned()
}

/// Returns the argument that describes a call best.
fn main_argument(args: &Value) -> &str {
    let named = MAIN_ARGUMENTS.iter().find_map(|key| args.get(key)?.as_str());
    named.or_else(|| args.as_object()?.values().find_map(Value::as_str)).unwrap_or_default()
}

/// Joins the lines of a text into one, with marks between them.
fn in_a_line(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    shorten(&visible(&lines.join(" ⏎ ")), most)
}

/// Renders the text that a title of `most` characters shows only in part: in full, or as the number of its lines.
fn rest_of_title(text: &str, most: usize, Layout { columns, theme, detail }: Layout<'_>) -> Vec<Line<'static>> {
    let text = text.trim();
    let is_whole = text.lines().count() <= 1 && text.graphemes(true).count() <= most;
    if is_whole {
        return Vec::new();
    }
    if let Detail::Brief(key) = detail {
        return vec![dim(format!("  … {} in all ({key})", count(text.lines().count() as u64, "line")), theme)];
    }
    let room = columns.saturating_sub(2).max(2);
    let line = |line: &str| hard_wrap(&dim(visible(line), theme), room, "");
    indented(text.lines().flat_map(line).collect()).collect()
}

/// Renders the head of a call: a mark and its title.
pub(super) fn titled(name: &str, rest: &str, good: bool, layout: Layout<'_>) -> Vec<Line<'static>> {
    let Layout { columns, theme, detail } = layout;
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
    if let Detail::Brief(key) = detail
        && lines.len() > MAX_TITLE_LINES
    {
        lines.truncate(MAX_TITLE_LINES - 1);
        lines.push(dim(format!("    … ({key})"), theme));
    }
    lines
}

/// Renders a call and its result.
pub(super) fn call_lines(call: &Call, layout: Layout<'_>) -> Vec<Line<'static>> {
    let title = call_title(&call.name, &call.args);
    let (name, rest) = title.split_once(' ').unwrap_or((&title, ""));
    let is_good = !call.failed && exit_failure(&call.name, &call.result).is_none();
    let is_full = layout.detail == Detail::Full;
    let mut lines = titled(name, rest, is_good, layout);
    if call.name == "execute" || is_full {
        lines.extend(rest_of_title(main_argument(&call.args), MAX_TITLE_CHARS, layout));
    }
    if call.failed {
        let text = if call.result.is_empty() { "it did not finish" } else { &call.result };
        lines.extend(indented(folded(text, Break::Words, (1, 6), layout)));
        return lines;
    }
    match call.name.as_str() {
        "edit_file" | "write_file" => lines.extend(change(call, layout)),
        "write_todos" | "read_todos" if !is_full => {}
        "read_file" | "ls" | "glob" | "grep" if !is_full => {
            // Binary data has no lines; an image is rendered as its own part.
            if !call.result.is_empty() {
                let found = count(call.result.lines().count() as u64, "line");
                lines.push(dim(format!("  {found}"), layout.theme));
            }
        }
        _ => lines.extend(indented(folded(&call.result, Break::Anywhere, (HEAD_LINES, TAIL_LINES), layout))),
    }
    lines
}

/// Renders the change of a file by a call.
fn change(call: &Call, Layout { columns, theme, detail }: Layout<'_>) -> Vec<Line<'static>> {
    let mut lines = wrapped_diff(&change_lines(&call.name, &call.args, None, theme), columns);
    let more = lines.len().saturating_sub(CHANGE_LINES);
    let more = match detail {
        Detail::Brief(key) if more > 0 => {
            lines.truncate(CHANGE_LINES);
            Some(more_lines(more, "  ", key, theme))
        }
        _ => None,
    };
    indented(lines).chain(more).collect()
}

/// Renders the change that a file tool's call makes. `file` is the present text of the file, if it is known.
pub(super) fn change_lines(tool: &str, args: &Value, file: Option<&str>, theme: Theme) -> Vec<Line<'static>> {
    if tool == "edit_file" {
        let (old, new) = (text_arg(args, "old_string"), text_arg(args, "new_string"));
        let all = args.get("replace_all").and_then(Value::as_bool).unwrap_or(false);
        return edit_diff(file, old, new, all, theme);
    }
    let text = text_arg(args, "content");
    match file {
        Some(file) => diff_lines(file, text, true, theme),
        None => new_file(text, theme),
    }
}

/// Renders the work of a sub-agent.
pub(super) fn agent(work: &AgentWork, layout: Layout<'_>) -> Vec<Line<'static>> {
    let Layout { columns, theme, detail } = layout;
    let name = if work.name.is_empty() { "task" } else { &work.name };
    let mut lines = titled(name, &in_a_line(&work.task, MAX_TASK_CHARS), !work.failed, layout);
    if detail == Detail::Full {
        lines.extend(rest_of_title(&work.task, MAX_TASK_CHARS, layout));
    }
    let facts = [
        (work.calls > 0).then(|| count(work.calls as u64, "call")),
        (work.tokens > 0).then(|| format!("{} tokens", grouped(work.tokens))),
        (work.dollars > 0.0).then(|| format!("${:.4}", work.dollars)),
        work.elapsed.map(duration::show),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    if !facts.is_empty() {
        let key = match detail {
            Detail::Brief(key) => format!(" ({key})"),
            Detail::Full => String::new(),
        };
        lines.push(dim(format!("  {}{key}", facts.join(" · ")), theme));
    }
    if detail == Detail::Full {
        let inner = columns.saturating_sub(2);
        let steps = work.items.iter().flat_map(|item| item_lines(item, inner, theme, Detail::Full));
        lines.extend(indented(steps.chain(markdown(&work.answer, inner, theme)).collect()));
    } else {
        lines.extend(indented(folded(&work.answer, Break::Words, (ANSWER_LINES, 0), layout)));
    }
    lines
}
