//! Renders the state.

mod at_work;
mod calls;
mod form;
mod items;
mod live;
mod panels;
mod picker;
mod printer;
mod question;
mod question_body;
mod question_keys;
mod question_title;
mod screen;
mod standing;

use ratatui::buffer::Buffer;
use ratatui::text::Line;

pub(crate) use calls::call_title;
pub(crate) use items::{Detail, item_lines};
pub(crate) use printer::{Printed, Printer};
pub(crate) use question_body::LaidOut;
pub(crate) use screen::pager;

use crate::app::App;
use crate::app::pager::Source;
use crate::app::transcript::Item;

/// A frame without an overlay.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) printed: Printed,
    pub(crate) live: Buffer,
    /// The position of the cursor in the live area.
    pub(crate) cursor: Option<(u16, u16)>,
}

/// Renders the next lines to print, and the live area below them. On an empty screen, prints as much as fits.
pub(crate) fn frame(app: &mut App, printer: &mut Printer, is_anew: bool) -> Frame {
    let rows = usize::from(app.size.1);
    let mut printed = printer.next(app, rows / 2);
    // Lines printed for the first time are not in the scrollback yet.
    let new = printed.lines.len();
    if is_anew {
        printed = printer.restart(app, rows);
    }
    let (live, cursor) = live::live(app, printer);
    if is_anew && !std::mem::take(&mut app.reopened) {
        printed.keep_last(rows.saturating_sub(usize::from(live.area.height)).max(new));
    }
    app.reopened = false;
    Frame { printed, live, cursor }
}

/// Returns the number of parts that a pager shows, and a function that lays out one of them.
pub(crate) fn parts<'a>(
    app: &'a App,
    source: &'a Source,
    columns: usize,
) -> (usize, impl Fn(usize) -> Vec<Line<'static>> + use<'a>) {
    let count = match source {
        Source::Conversation => app.items.len() + 1,
        Source::Items { items, .. } => items.len(),
        Source::Preview(picker) => picker.preview().len(),
        Source::Approval(_) | Source::Trust(_) => 1,
        Source::Together(calls) => calls.len(),
    };
    let whole = move |items: &[Item], at: usize| {
        let mut lines = match items.get(at) {
            Some(item) => item_lines(item, columns, app.theme, Detail::Full),
            // In the conversation, the current work follows the finished parts.
            None => live::current_work(app, columns),
        };
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines
    };
    let lay_out = move |at: usize| -> Vec<Line<'static>> {
        match source {
            Source::Conversation => whole(&app.items, at),
            Source::Items { items, .. } => whole(items, at),
            Source::Preview(picker) => whole(picker.preview(), at),
            Source::Approval(call) => {
                // The foot has the name of the file if it fits there.
                let is_named = crate::text::line_width(&screen::subject(call, app.theme)) <= columns;
                let title = question_title::question_title(app, call, app.questions.position(), columns);
                let mut lines = if is_named { Vec::new() } else { title };
                lines.extend(question_body::whole_question(call, columns, app.theme));
                lines
            }
            Source::Trust(question) => panels::whole_trust(question, columns, app.theme),
            Source::Together(calls) => calls.get(at).map_or_else(Vec::new, |call| {
                let mut lines = question_title::question_title(app, call, (at + 1, calls.len()), columns);
                lines.extend(question_body::whole_question(call, columns, app.theme));
                lines
            }),
        }
    };
    (count, lay_out)
}
