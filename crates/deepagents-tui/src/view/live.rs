//! The live area: work in progress, the input and the status.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::at_work::{activity, at_work};
use super::items::{Detail, dim};
use super::panels::{self, Panel};
use super::printer::Printer;
use super::standing::{footer, question_waits, status};
use crate::app::menu::MAX_MENU_ROWS;
use crate::app::{App, Overlay, QueuedMessage};
use crate::policy::Mode;
use crate::text::{clip, markdown, shorten, visible};

/// Maximum rows of the input.
const MAX_INPUT_ROWS: usize = 10;

/// Renders the current answer and the running calls in full.
pub(super) fn current_work(app: &App, columns: usize) -> Vec<Line<'static>> {
    let mut lines = markdown(app.live.answer.trim(), columns, app.theme);
    lines.extend(at_work(app, columns, Detail::Full));
    lines
}

/// Draws the live area and returns the position of the cursor. If there is little room, parts are left out, the input
/// last.
pub(crate) fn live(app: &App, printer: &Printer) -> (Buffer, Option<(u16, u16)>) {
    let (columns, rows) = (usize::from(app.size.0), usize::from(app.size.1));
    // One row remains for the scrollback, unless there are hardly any.
    let most = if rows > 3 { rows - 1 } else { rows };
    let footer = (rows > 2).then(|| footer(app, columns));
    let covered = !app.questions.is_empty() && !app.shows_question();
    let status = match covered {
        true if rows > 2 => Some(question_waits(app, columns)),
        _ => (app.is_busy() && rows > 3).then(|| status(app, columns)).flatten(),
    };
    let own = (!app.status_line.is_empty() && rows > 6)
        .then(|| clip(&Line::from(Span::raw(visible(&app.status_line).into_owned())), columns));
    let mut room = most - usize::from(footer.is_some()) - usize::from(status.is_some()) - usize::from(own.is_some());

    let panel = panel(app, columns, room.saturating_sub(1).max(1));
    let asks = panel.as_ref().is_some_and(|panel| panel.cursor.is_some());
    let replaces = !matches!(app.overlay, Overlay::None | Overlay::Search { .. });
    let most_input = if panel.is_some() { room / 3 } else { room };
    // A panel with its own cursor, or a list, replaces the input.
    let input = match asks || (replaces && panel.is_some()) {
        true => Panel::default(),
        false => input(app, columns, most_input.clamp(1, MAX_INPUT_ROWS)),
    };
    let input_rows = input.lines.len();
    // An input of several rows must not hide the keys of a question, so the panel is laid out again in the rows that
    // are left.
    let panel = if input_rows != 1 { self::panel(app, columns, room.saturating_sub(input_rows).max(1)) } else { panel };
    room = room.saturating_sub(input_rows);
    let mut panel = panel.unwrap_or_default();
    panel.fit(room);
    room -= panel.lines.len();

    let menu = match (&app.menu, app.overlay.is_none()) {
        (Some(menu), true) => panels::menu(menu, columns, MAX_MENU_ROWS.min(room), app.theme),
        _ => Vec::new(),
    };
    room -= menu.len();

    let above = waiting(app, columns, room);
    room -= above.len();
    let activity = activity(app, columns, room);
    room -= activity.len();
    // A screen reader gets each part of an answer once, when it is complete.
    let tail = if app.theme.spoken { 0 } else { room.min(rows / 2 + 1) };
    let mut lines = printer.tail(app, tail);
    let apart = room - lines.len() > 0 && rows > 8;
    lines.extend(activity.into_iter().chain(above).chain(apart.then(Line::default)).chain(status));
    let mut area = Panel::from(lines).above(panel).above(input);
    area.lines.extend(menu.into_iter().chain(own).chain(footer));
    paint(&area, columns)
}

/// Draws a panel into a buffer.
pub(super) fn paint(Panel { lines, cursor }: &Panel, columns: usize) -> (Buffer, Option<(u16, u16)>) {
    let small = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    let area = Rect::new(0, 0, small(columns), small(lines.len().max(1)));
    let mut buffer = Buffer::empty(area);
    for (at, line) in lines.iter().enumerate() {
        buffer.set_line(0, small(at), line, area.width);
    }
    (buffer, cursor.map(|(x, y)| (small(x), small(y))))
}

fn panel(app: &App, columns: usize, rows: usize) -> Option<Panel> {
    match &app.overlay {
        Overlay::Secret { provider, editor } => Some(panels::secret(app, provider, editor, columns)),
        Overlay::Picker(picker) => Some(super::picker::picker(app, picker, columns, rows.min(20))),
        Overlay::Trust(question) => Some(panels::trust(app, question, columns, rows)),
        _ if app.questions.current().is_some() => Some(super::question::question(app, columns, rows)),
        _ => None,
    }
}

/// Renders the input.
fn input(app: &App, columns: usize, rows: usize) -> Panel {
    let theme = app.theme;
    let lead = match &app.overlay {
        Overlay::Search { words, skip } if !words.is_empty() && app.history.search(words, *skip).is_none() => {
            format!("(search: {}: no match) ", visible(words))
        }
        Overlay::Search { words, .. } => format!("(search: {}) ", visible(words)),
        _ => "› ".to_owned(),
    };
    let lead = if columns > 8 { lead } else { String::new() };
    let indent = crate::text::width(&lead).min(columns.saturating_sub(4));
    let (all, (x, y)) = app.editor.rows(columns.saturating_sub(indent + 1));
    let first = y.saturating_sub(rows.saturating_sub(1)).min(all.len().saturating_sub(rows));
    let shell = app.editor.text().starts_with('!');
    // Keeps the search text in view, however long the matching message is.
    let led = if matches!(app.overlay, Overlay::Search { .. }) { first } else { 0 };
    let lines = all.into_iter().enumerate().skip(first).take(rows).map(|(at, row)| {
        let lead = if at == led { lead.clone() } else { " ".repeat(indent) };
        let style = if shell { theme.warn } else { theme.user };
        let empty = app.editor.is_empty() && columns > 30 && app.questions.is_empty();
        let text = if empty { Span::styled(placeholder(app), theme.dim) } else { Span::raw(row) };
        Line::from(vec![Span::styled(lead, style), text])
    });
    Panel { lines: lines.collect(), cursor: Some((indent + x, y - first)) }
}

/// Returns the placeholder of an empty input.
fn placeholder(app: &App) -> &'static str {
    match (&app.plan, app.mode) {
        (Some(_), Mode::Auto) => "Enter carries out the plan · or say what to change",
        (Some(_), _) => "Enter carries out the plan, asking you · or say what to change",
        (None, _) => "ask for something, or / for commands",
    }
}

/// Renders the messages that the run has not received yet.
fn waiting(app: &App, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let line = |waiting: &QueuedMessage| {
        let text = shorten(&visible(&waiting.text), columns.saturating_sub(12));
        clip(&dim(format!("↳ waiting: {text}"), app.theme), columns)
    };
    app.waiting.iter().rev().take(rows.min(4)).map(line).collect::<Vec<_>>().into_iter().rev().collect()
}
