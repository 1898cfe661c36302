//! What of the conversation goes into the scrollback, and when.

use std::sync::Arc;

use ratatui::text::Line;

use super::items::{Detail, item_lines};
use crate::app::App;
use crate::app::transcript::{Item, Picture};
use crate::key_map::Action;
use crate::text::{last_block, markdown};

/// Lines of a conversation that are printed when it is opened.
const BACKLOG: usize = 400;
/// Rows that a picture may well take.
const PICTURE: usize = 8;

/// What is printed: lines, and pictures by the number of lines before them.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    pub(crate) lines: Vec<Line<'static>>,
    /// Pictures as base64.
    pub(crate) pictures: Vec<(usize, Arc<str>)>,
}

impl Printed {
    /// Leaves out what would scroll away above so many rows: the terminal has it in its scrollback.
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

/// How far the conversation is printed.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    /// Finished parts that are printed.
    items: usize,
    /// Whether a part of the answer that comes is printed.
    begun: bool,
    /// Bytes of that answer whose blocks are printed.
    block: usize,
    /// Lines of the block after those that are printed.
    lines: usize,
}

impl Printer {
    /// The lines to be printed now. The rest of the answer that comes is left to the live area: at most `room` lines.
    pub(crate) fn next(&mut self, app: &App, room: usize) -> Printed {
        let columns = usize::from(app.size.0);
        let Printed { lines: mut out, mut pictures } = Printed::default();
        let key = app.keys.name(Action::Details);
        let first = self.skip_backlog(app, BACKLOG, &mut out);
        for at in first..app.items.len() {
            let Some(item) = app.items.get(at) else { break };
            if let (true, Item::Answer(text)) = (self.begun, item) {
                out.extend(self.rest(text.trim_end(), columns, app));
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
            // Nothing was kept of an answer that came to nothing.
            (self.begun, self.block, self.lines) = (false, 0, 0);
        } else {
            self.stable(app, columns, room, &mut out);
        }
        Printed { lines: out, pictures }
    }

    /// Begins anew on an empty screen of so many rows.
    pub(crate) fn restart(&mut self, app: &App, rows: usize) -> Printed {
        *self = Self::default();
        let most = if app.reopened { BACKLOG } else { rows };
        let mut skipped = Vec::new();
        self.items = self.skip_backlog(app, most, &mut skipped);
        let mut lines = if app.reopened { skipped } else { Vec::new() };
        let before = lines.len();
        let next = self.next(app, rows);
        lines.extend(next.lines);
        // Of the pictures those are drawn anew that may still be seen.
        let unseen = next.pictures.len().saturating_sub((rows / PICTURE).max(1));
        let pictures = next.pictures.into_iter().skip(unseen);
        Printed { lines, pictures: pictures.map(|(at, picture)| (before + at, picture)).collect() }
    }

    /// The first part that is printed where there is more than is printed at once.
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

    /// What has come of the answer and does not change any more.
    fn stable(&mut self, app: &App, columns: usize, room: usize, out: &mut Vec<Line<'static>>) {
        let text = app.live.answer.as_str();
        let open = text.get(self.block..).unwrap_or_default();
        let (start, is_table) = last_block(open);
        if start > 0 {
            let done = open.get(..start).unwrap_or_default();
            let lines = self.block_lines(done, columns, app);
            self.lead(app, out);
            out.extend(lines);
            self.block += start;
            self.lines = 0;
            // Blocks stand apart.
            self.begun = true;
        }
        // A long block is printed as it grows, but for its last lines; a table's columns are not known before its end.
        let open = text.get(self.block..).unwrap_or_default();
        if !is_table {
            let lines = markdown(open.trim_end(), columns, app.theme);
            let keep = room.clamp(1, 6);
            if lines.len() > self.lines + keep + 2 {
                self.lead(app, out);
                let end = lines.len() - keep;
                if self.lines == 0 && self.block > 0 {
                    out.push(Line::default());
                }
                out.extend(lines.into_iter().take(end).skip(self.lines));
                self.lines = end;
            }
        }
    }

    /// The blank line before the answer.
    fn lead(&mut self, app: &App, out: &mut Vec<Line<'static>>) {
        if !self.begun {
            self.begun = true;
            if !app.items.is_empty() {
                out.push(Line::default());
            }
        }
    }

    /// Lines of blocks that are finished, less those that are printed.
    fn block_lines(&self, text: &str, columns: usize, app: &App) -> Vec<Line<'static>> {
        let lines = markdown(text.trim_end(), columns, app.theme);
        let gap = self.lines == 0 && self.block > 0 && !lines.is_empty();
        gap.then(Line::default).into_iter().chain(lines.into_iter().skip(self.lines)).collect()
    }

    /// What is left of an answer of which a part is printed.
    fn rest(&self, text: &str, columns: usize, app: &App) -> Vec<Line<'static>> {
        self.block_lines(text.get(self.block..).unwrap_or_default(), columns, app)
    }

    /// The part of the answer that is not printed, in so many rows: its end.
    pub(crate) fn tail(&self, app: &App, rows: usize) -> Vec<Line<'static>> {
        let text = app.live.answer.trim_end();
        if text.is_empty() || rows == 0 {
            return Vec::new();
        }
        let mut lines = self.rest(text, usize::from(app.size.0), app);
        if !self.begun && !app.items.is_empty() && lines.len() < rows {
            lines.insert(0, Line::default());
        }
        let more = lines.len().saturating_sub(rows);
        lines.drain(..more);
        lines
    }
}

/// Whether two parts stand apart: not below the first, and not among calls or remarks.
fn has_gap(before: Option<&Item>, item: &Item) -> bool {
    let is_work = |item: &Item| matches!(item, Item::Call(_) | Item::Agent(_) | Item::Thinking(_));
    let is_note = |item: &Item| matches!(item, Item::Note { .. });
    let is_picture = |item: &Item| matches!(item, Item::Picture(_));
    let belongs =
        |before: &Item| is_work(before) && is_work(item) || is_note(before) && is_note(item) || is_picture(item);
    before.is_some_and(|before| !belongs(before))
}
