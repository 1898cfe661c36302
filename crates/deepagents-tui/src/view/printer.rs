//! Decides what part of the conversation is printed to the scrollback, and when.

use std::sync::Arc;

use ratatui::text::Line;

use super::items::{Detail, item_lines};
use crate::app::App;
use crate::app::transcript::{Item, Picture};
use crate::key_map::Action;
use crate::text::{last_block, markdown};

/// Maximum lines printed when a conversation is opened.
const MAX_BACKLOG_LINES: usize = 400;
/// Rows that an image typically takes.
const IMAGE_ROWS: usize = 8;

/// The output to print: lines, and images by the number of lines before them.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    pub(crate) lines: Vec<Line<'static>>,
    /// Images in base64.
    pub(crate) pictures: Vec<(usize, Arc<str>)>,
}

impl Printed {
    /// Drops all but the last `rows` lines: the terminal has the others in its scrollback.
    pub(crate) fn keep_last(&mut self, rows: usize) {
        let hidden = self.lines.len().saturating_sub(rows);
        self.lines.drain(..hidden);
        self.pictures.retain_mut(|(at, _)| match at.checked_sub(hidden) {
            Some(left) => {
                *at = left;
                true
            }
            None => false,
        });
    }
}

/// How much of the conversation has been printed.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    /// The number of finished parts that have been printed.
    items: usize,
    /// Whether part of the current answer has been printed.
    begun: bool,
    /// Bytes of the current answer whose blocks have been printed.
    block: usize,
    /// Lines of the next block that have been printed.
    lines: usize,
}

impl Printer {
    /// Returns the lines to print now. The rest of the current answer, at most `room` lines, is left to the live area.
    pub(crate) fn next(&mut self, app: &App, room: usize) -> Printed {
        let columns = usize::from(app.size.0);
        let Printed { lines: mut out, mut pictures } = Printed::default();
        let key = app.keys.name(Action::Details);
        let first = self.skip_backlog(app, MAX_BACKLOG_LINES, &mut out);
        for at in first..app.items.len() {
            let Some(item) = app.items.get(at) else { break };
            if let (true, Item::Answer(text)) = (self.begun, item) {
                out.extend(self.rest_of_answer(text.trim_end(), columns, app));
                (self.begun, self.block, self.lines) = (false, 0, 0);
                continue;
            }
            if has_gap(at.checked_sub(1).and_then(|at| app.items.get(at)), item) {
                out.push(Line::default());
            }
            out.extend(item_lines(item, columns, app.theme, Detail::Brief(&key)));
            if let Item::Picture(Picture { data: Some(data), .. }) = item {
                pictures.push((out.len(), data.clone()));
            }
        }
        self.items = app.items.len();
        if app.live.answer.trim().is_empty() {
            // An answer that was discarded leaves nothing to continue.
            (self.begun, self.block, self.lines) = (false, 0, 0);
        } else {
            self.stable(app, columns, room, &mut out);
        }
        Printed { lines: out, pictures }
    }

    /// Starts over on an empty screen of `rows` rows.
    pub(crate) fn restart(&mut self, app: &App, rows: usize) -> Printed {
        *self = Self::default();
        let most = if app.reopened { MAX_BACKLOG_LINES } else { rows };
        let mut skipped = Vec::new();
        self.items = self.skip_backlog(app, most, &mut skipped);
        let mut lines = if app.reopened { skipped } else { Vec::new() };
        let before = lines.len();
        let next = self.next(app, rows);
        lines.extend(next.lines);
        // Only images that may still be visible are drawn again.
        let unseen = next.pictures.len().saturating_sub((rows / IMAGE_ROWS).max(1));
        let pictures = next.pictures.into_iter().skip(unseen);
        Printed { lines, pictures: pictures.map(|(at, picture)| (before + at, picture)).collect() }
    }

    /// Returns the first part to print, if there are more than can be printed at once.
    fn skip_backlog(&self, app: &App, most: usize, out: &mut Vec<Line<'static>>) -> usize {
        let columns = usize::from(app.size.0);
        let key = app.keys.name(Action::Details);
        let (mut at, mut lines) = (app.items.len(), 0);
        while at > self.items && lines < most {
            at -= 1;
            let item = app.items.get(at);
            lines += item.map_or(0, |item| item_lines(item, columns, app.theme, Detail::Brief(&key)).len() + 1);
        }
        if at > self.items {
            let text = format!("… {} earlier ({key})", crate::text::count((at - self.items) as u64, "part"));
            out.push(Line::from(ratatui::text::Span::styled(text, app.theme.dim)));
        }
        at
    }

    /// Prints the part of the current answer that no longer changes.
    fn stable(&mut self, app: &App, columns: usize, room: usize, out: &mut Vec<Line<'static>>) {
        let text = app.live.answer.as_str();
        let open = text.get(self.block..).unwrap_or_default();
        let (start, is_table) = last_block(open);
        if start > 0 {
            let done = open.get(..start).unwrap_or_default();
            let lines = self.block_lines(done, columns, app);
            self.add_blank_before_answer(app, out);
            out.extend(lines);
            self.block += start;
            self.lines = 0;
            // Blocks are separated by blank lines.
            self.begun = true;
        }
        // A long block is printed as it grows, except for its last lines. The columns of a table are known only at its
        // end.
        let open = text.get(self.block..).unwrap_or_default();
        if !is_table {
            let lines = markdown(open.trim_end(), columns, app.theme);
            let keep = room.clamp(1, 6);
            if lines.len() > self.lines + keep + 2 {
                self.add_blank_before_answer(app, out);
                let end = lines.len() - keep;
                if self.lines == 0 && self.block > 0 {
                    out.push(Line::default());
                }
                out.extend(lines.into_iter().take(end).skip(self.lines));
                self.lines = end;
            }
        }
    }

    /// Adds the blank line before the answer.
    fn add_blank_before_answer(&mut self, app: &App, out: &mut Vec<Line<'static>>) {
        if !self.begun {
            self.begun = true;
            if !app.items.is_empty() {
                out.push(Line::default());
            }
        }
    }

    /// Renders finished blocks, without the lines already printed.
    fn block_lines(&self, text: &str, columns: usize, app: &App) -> Vec<Line<'static>> {
        let lines = markdown(text.trim_end(), columns, app.theme);
        let gap = self.lines == 0 && self.block > 0 && !lines.is_empty();
        gap.then(Line::default).into_iter().chain(lines.into_iter().skip(self.lines)).collect()
    }

    /// Renders the rest of an answer that has been printed in part.
    fn rest_of_answer(&self, text: &str, columns: usize, app: &App) -> Vec<Line<'static>> {
        self.block_lines(text.get(self.block..).unwrap_or_default(), columns, app)
    }

    /// Renders the end of the unprinted part of the answer in `rows` rows.
    pub(crate) fn tail(&self, app: &App, rows: usize) -> Vec<Line<'static>> {
        let text = app.live.answer.trim_end();
        if text.is_empty() || rows == 0 {
            return Vec::new();
        }
        let mut lines = self.rest_of_answer(text, usize::from(app.size.0), app);
        if !self.begun && !app.items.is_empty() && lines.len() < rows {
            lines.insert(0, Line::default());
        }
        let more = lines.len().saturating_sub(rows);
        lines.drain(..more);
        lines
    }
}

/// Returns whether a blank line separates two parts. There is none before the first part, among calls and thoughts,
/// among notices, or before an image.
fn has_gap(before: Option<&Item>, item: &Item) -> bool {
    let is_work = |item: &Item| matches!(item, Item::Call(_) | Item::Agent(_) | Item::Thinking(_));
    let is_note = |item: &Item| matches!(item, Item::Note { .. });
    let is_picture = |item: &Item| matches!(item, Item::Picture(_));
    let belongs =
        |before: &Item| is_work(before) && is_work(item) || is_note(before) && is_note(item) || is_picture(item);
    before.is_some_and(|before| !belongs(before))
}
