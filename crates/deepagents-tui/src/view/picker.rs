//! Renders a list to choose from, and the preview of the selected entry.

use ratatui::text::{Line, Span};

use super::items::{Detail, dim, item_lines};
use super::panels::{Panel, input_line, keys_line, row};
use crate::app::App;
use crate::app::effect::{ListOf, RewindScope};
use crate::app::picker::{Picker, Stage};
use crate::key_map::Action;
use crate::text::{clip, visible};

/// Maximum rows of a preview.
const MAX_PREVIEW_ROWS: usize = 6;
/// Columns for laying out a line that is then clipped.
const LAYOUT_COLUMNS: usize = 200;
/// Minimum rows for a heading above the question about a rewind.
const MIN_HEADING_ROWS: usize = 9;

/// Renders a list, or the question about the selected entry, in `rows` rows.
pub(super) fn picker(app: &App, picker: &Picker, columns: usize, rows: usize) -> Panel {
    let theme = app.theme;
    let mut lines = vec![Line::from(Span::styled(picker.title(), theme.heading))];
    let esc = app.keys.name(Action::Stop);
    let selected = || picker.current().map(|choice| choice.label).unwrap_or_default();
    match &picker.stage {
        Stage::Choose => return list(app, picker, columns, rows),
        Stage::Confirm(scope) => {
            let is_tight = rows < MIN_HEADING_ROWS;
            if is_tight {
                // The effect on files matters more than the selection just made.
                lines.clear();
            } else {
                lines.push(clip(&Line::from(format!("  before “{}”", visible(&selected()))), columns));
            }
            for choice in RewindScope::ALL {
                let text = match choice {
                    RewindScope::Both => "files and conversation",
                    RewindScope::Conversation => "only the conversation",
                    RewindScope::Files => "only the files",
                };
                lines.push(row(choice == *scope, text, "", columns, theme));
            }
            let room = rows.saturating_sub(lines.len() + 1);
            let all = app.keys.name(Action::Details);
            let mut keys = format!("Enter goes back · {esc}");
            if *scope != RewindScope::Conversation {
                if is_tight {
                    lines.extend(first_of_preview(app, picker, columns).filter(|_| room > 0));
                } else {
                    lines.extend(preview(app, picker, columns, room));
                }
                if !picker.preview().is_empty() {
                    keys = format!("Enter goes back · {esc} · {all} all of it");
                }
            }
            if crate::text::width(&keys) > columns {
                keys = format!("Enter · {esc} · {all}");
            }
            lines.push(clip(&dim(keys, theme), columns));
        }
        Stage::Delete => {
            lines.push(clip(&Line::from(format!("  delete “{}” for good?", visible(&selected()))), columns));
            lines.push(clip(&keys_line([("y", " delete it · "), ("n", " keep it")], theme), columns));
        }
        Stage::Rename(editor) => {
            let hint = format!("Enter saves it · {esc} back");
            return Panel::from(lines).above(input_line(editor, "title: ", &hint, (columns, rows), theme));
        }
    }
    lines.into()
}

fn list(app: &App, picker: &Picker, columns: usize, rows: usize) -> Panel {
    let theme = app.theme;
    let mut lines = vec![Line::from(Span::styled(picker.title(), theme.heading))];
    let mut cursor = None;
    if !picker.filter.is_empty() {
        lines.push(Line::from(format!("  / {}", visible(&picker.filter))));
        cursor = Some((4 + crate::text::width(&visible(&picker.filter)), 1));
    }
    let all = picker.rows();
    let free = rows.saturating_sub(lines.len() + 1).max(1);
    let known = if free > 8 { preview(app, picker, columns, MAX_PREVIEW_ROWS.min(free / 2)) } else { Vec::new() };
    let room = free.saturating_sub(known.len()).max(1);
    let first = picker.selected.saturating_sub(room.saturating_sub(1));
    let shown = || all.iter().enumerate().skip(first).take(room);
    let width = |label: &str| crate::text::width(&visible(label));
    // Details are aligned, unless long labels leave no room.
    let widest = shown().map(|(_, choice)| width(&choice.label)).max().unwrap_or(0).min(columns / 2);
    for (at, choice) in shown() {
        let detail = if picker.of == ListOf::Checkpoints { "" } else { &choice.detail };
        let gap = if detail.is_empty() { 0 } else { widest.saturating_sub(width(&choice.label)) };
        lines.push(row(at == picker.selected, &format!("{}{}", choice.label, " ".repeat(gap)), detail, columns, theme));
    }
    if all.is_empty() {
        lines.push(dim("  no match", theme));
    }
    lines.extend(known);
    let esc = app.keys.name(Action::Stop);
    let keys = match picker.of {
        // Custom keys for Ctrl+R and Ctrl+D work here too.
        ListOf::Threads => {
            let (rename, delete) = (app.keys.name(Action::Search), app.keys.name(Action::Quit));
            format!("Enter opens · type to filter · {rename} rename · Ctrl+F fork · {delete} delete · {esc}")
        }
        _ => format!("Enter chooses · type to filter · {esc} leaves"),
    };
    // If not all entries fit, show the position.
    let place = if all.len() > room { format!("{} of {} · ", picker.selected + 1, all.len()) } else { String::new() };
    lines.push(clip(&dim(format!("{place}{keys}"), theme), columns));
    Panel { lines, cursor }
}

/// Renders the first line of the selected entry's preview.
fn first_of_preview(app: &App, picker: &Picker, columns: usize) -> Option<Line<'static>> {
    let first = picker.preview().first()?;
    let lines = item_lines(first, columns.max(LAYOUT_COLUMNS), app.theme, Detail::Full);
    lines.first().map(|line| clip(line, columns))
}

/// Renders the preview of the selected entry in at most `rows` rows.
fn preview(app: &App, picker: &Picker, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let items = picker.preview();
    if items.is_empty() || rows < 2 {
        return Vec::new();
    }
    let mut lines = vec![dim("─".repeat(columns.min(40)), app.theme)];
    let key = app.keys.name(Action::Details);
    let all: Vec<Line<'static>> =
        items.iter().flat_map(|item| item_lines(item, columns, app.theme, Detail::Brief(&key))).collect();
    let room = rows - 1;
    if all.len() > room {
        let more = all.len() - (room - 1);
        lines.extend(all.into_iter().take(room - 1));
        let text = format!("  … {}", crate::text::count(more as u64, "more line"));
        lines.push(dim(text, app.theme));
    } else {
        lines.extend(all);
    }
    lines
}
