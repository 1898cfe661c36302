//! Decides what part of the conversation is printed to the scrollback, and when.

use std::sync::Arc;

use ratatui::text::Line;

use super::items::{Detail, dim, item_lines};
use crate::app::App;
use crate::app::transcript::{Item, Picture};
use crate::key_map::Action;
use crate::text::{count, last_block, markdown, paragraph_cut};

/// Maximum lines printed when a conversation is opened.
const MAX_BACKLOG_LINES: usize = 400;
/// Minimum bytes of a paragraph whose printed beginning is not laid out again.
const MIN_CUT_BYTES: usize = 8 * 1024;
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
    answer: PrintedAnswer,
}

/// How much of the current answer has been printed.
#[derive(Debug, Default)]
struct PrintedAnswer {
    /// Whether part of it has been printed.
    begun: bool,
    /// Bytes whose blocks have been printed.
    block: usize,
    /// Lines of the next block that have been printed.
    lines: usize,
    /// The next block as laid out, and the length of the answer at that time.
    open: (usize, Vec<Line<'static>>),
}

impl Printer {
    /// Returns the lines to print now. The rest of the current answer, at most `room` lines, is left to the live area.
    pub(crate) fn next(&mut self, app: &App, room: usize) -> Printed {
        let columns = usize::from(app.size.0);
        let Printed { lines: mut out, mut pictures } = Printed::default();
        let key = app.keys.name(Action::Details);
        let first = self.skip_backlog(app, MAX_BACKLOG_LINES, &mut out);
        let skipped = app.items.get(self.items..first).unwrap_or_default();
        if skipped.iter().any(|item| matches!(item, Item::Answer(_))) {
            self.answer = PrintedAnswer::default();
        }
        for at in first..app.items.len() {
            let Some(item) = app.items.get(at) else { break };
            // A finished answer ends what was printed of it, and the next answer begins anew.
            let answer = std::mem::take(&mut self.answer);
            match item {
                Item::Answer(text) if answer.begun => {
                    out.extend(answer.rest(&markdown(answer.open_text(text), columns, app.theme)));
                    continue;
                }
                Item::Answer(_) => {}
                _ => self.answer = answer,
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
            self.answer = PrintedAnswer::default();
        } else {
            self.answer.advance(app, columns, room, &mut out);
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
            let text = format!("… {} earlier ({key})", count((at - self.items) as u64, "part"));
            out.push(dim(text, app.theme));
        }
        at
    }

    /// Renders the end of the unprinted part of the answer in `rows` rows.
    pub(crate) fn tail(&self, app: &App, rows: usize) -> Vec<Line<'static>> {
        if app.live.answer.trim_end().is_empty() || rows == 0 {
            return Vec::new();
        }
        let mut lines: Vec<Line<'static>> = self.answer.rest(&self.answer.open.1).rev().take(rows).collect();
        lines.reverse();
        if !self.answer.begun && !app.items.is_empty() && lines.len() < rows {
            lines.insert(0, Line::default());
        }
        lines
    }
}

impl PrintedAnswer {
    /// Returns the part of the answer after the printed blocks.
    fn open_text<'a>(&self, answer: &'a str) -> &'a str {
        answer.get(self.block..).unwrap_or_default().trim_end()
    }

    /// Prints the part of the answer that no longer changes, and lays out the rest.
    fn advance(&mut self, app: &App, columns: usize, room: usize, out: &mut Vec<Line<'static>>) {
        let answer = app.live.answer.as_str();
        if self.open.0 == answer.len() {
            return;
        }
        let open = answer.get(self.block..).unwrap_or_default();
        let (start, is_table) = last_block(open);
        if start > 0 {
            let done = markdown(open.get(..start).unwrap_or_default().trim_end(), columns, app.theme);
            self.add_blank_before(app, out);
            out.extend(self.rest(&done));
            self.block += start;
            self.lines = 0;
        }
        let mut lines = markdown(self.open_text(answer), columns, app.theme);
        // A long block is printed as it grows, except for its last lines. The columns of a table are known only at its
        // end.
        let keep = room.clamp(1, 6);
        if !is_table && lines.len() > self.lines + keep + 2 {
            self.add_blank_before(app, out);
            let end = lines.len() - keep;
            out.extend(self.rest(lines.get(..end).unwrap_or_default()));
            self.lines = end;
            self.cut(answer, &mut lines);
        }
        self.open = (answer.len(), lines);
    }

    /// Takes the beginning of a long paragraph out of the open block, so that it is not laid out for each frame. The
    /// last printed line stays, as a sign that the block has been begun.
    fn cut(&mut self, answer: &str, lines: &mut Vec<Line<'static>>) {
        let text = self.open_text(answer);
        if text.len() < MIN_CUT_BYTES {
            return;
        }
        let printed = lines.iter().take(self.lines - 1).flat_map(|line| &line.spans);
        let shown = printed.flat_map(|span| span.content.chars()).filter(|c| !c.is_whitespace()).count();
        if let Some(at) = paragraph_cut(text, shown) {
            self.block += at;
            lines.drain(..self.lines - 1);
            self.lines = 1;
        }
    }

    /// Adds the blank line before the answer.
    fn add_blank_before(&mut self, app: &App, out: &mut Vec<Line<'static>>) {
        if !std::mem::replace(&mut self.begun, true) && !app.items.is_empty() {
            out.push(Line::default());
        }
    }

    /// Returns the lines of the open block that have not been printed. A blank line separates it from the block before.
    fn rest<'a>(&self, lines: &'a [Line<'static>]) -> impl DoubleEndedIterator<Item = Line<'static>> + use<'a> {
        let gap = self.lines == 0 && self.block > 0 && !lines.is_empty();
        let unprinted = lines.get(self.lines..).unwrap_or_default();
        gap.then(Line::default).into_iter().chain(unprinted.iter().cloned())
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
