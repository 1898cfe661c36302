//! Decides what part of the conversation is printed to the scrollback, and when.

use std::borrow::Cow;
use std::sync::Arc;

use ratatui::text::Line;

use super::items::{Detail, dim, item_lines};
use crate::app::App;
use crate::app::transcript::{Item, Picture};
use crate::key_map::Action;
use crate::text::{clip, code_cut, count, last_block, markdown, paragraph_cut};

/// Maximum lines printed when a conversation is opened.
const MAX_BACKLOG_LINES: usize = 400;
/// Minimum bytes of a paragraph or code block whose printed beginning is not laid out again.
const MIN_CUT_BYTES: usize = 8 * 1024;
/// Lines of a code block that are laid out again: more than rows of it are left unprinted.
const KEPT_CODE_LINES: usize = 8;
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
    /// The opening line of a code block whose first lines are among them.
    fence: String,
    /// Lines of the next block that have been printed.
    lines: usize,
    /// The next block as laid out, and the length of the answer at that time.
    open: (usize, Vec<Line<'static>>),
}

impl Printer {
    /// Returns the lines to print now. The rest of the current answer, at most `room` lines, is left to the live area.
    pub(crate) fn next(&mut self, app: &App, room: usize) -> Printed {
        self.print(app, room, MAX_BACKLOG_LINES, true)
    }

    /// Starts over on an empty screen of `rows` rows.
    pub(crate) fn restart(&mut self, app: &App, rows: usize) -> Printed {
        *self = Self::default();
        let most = if app.reopened { MAX_BACKLOG_LINES } else { rows };
        let mut printed = self.print(app, rows, most, app.reopened);
        // Only images that may still be visible are drawn again.
        let unseen = printed.pictures.len().saturating_sub((rows / IMAGE_ROWS).max(1));
        printed.pictures.drain(..unseen);
        printed
    }

    /// Prints the new parts. Of those that take more than `most` lines, only the last are laid out; `tells` says how many
    /// others there are.
    fn print(&mut self, app: &App, room: usize, most: usize, tells: bool) -> Printed {
        let Printed { lines: mut out, mut pictures } = Printed::default();
        let columns = usize::from(app.size.0);
        let key = app.keys.name(Action::Details);
        let new = app.items.get(self.items..).unwrap_or_default();
        // The finished answer whose beginning has been printed.
        let begun = new.iter().position(|item| self.answer.begun && matches!(item, Item::Answer(_)));
        let lay_out = |(at, item): (usize, &Item)| match item {
            Item::Answer(text) if begun == Some(at) => {
                self.answer.rest(&markdown(self.answer.open_text(text).trim_end(), columns, app.theme)).collect()
            }
            _ => item_lines(item, columns, app.theme, Detail::Brief(&key)),
        };
        let (mut laid_out, mut total) = (Vec::new(), 0);
        for (at, item) in new.iter().enumerate().rev() {
            if total >= most {
                break;
            }
            let lines = lay_out((at, item));
            total += lines.len() + 1;
            laid_out.push((at, item, lines));
        }
        let skipped = new.len() - laid_out.len();
        if tells && skipped > 0 {
            let text = format!("… {} earlier ({key})", count(skipped as u64, "part"));
            out.push(clip(&dim(text, app.theme), columns));
        }
        for (at, item, lines) in laid_out.into_iter().rev() {
            let before = (self.items + at).checked_sub(1).and_then(|before| app.items.get(before));
            if begun != Some(at) && has_gap(before, item) {
                out.push(Line::default());
            }
            out.extend(lines);
            if let Item::Picture(Picture { data: Some(data), .. }) = item {
                pictures.push((out.len(), data.clone()));
            }
        }
        self.items = app.items.len();
        let is_over = app.live.answer.trim().is_empty();
        // A finished answer ends what was printed of it, and one that was discarded leaves nothing to continue.
        if is_over || new.iter().any(|item| matches!(item, Item::Answer(_))) {
            self.answer = PrintedAnswer::default();
        }
        if !is_over {
            self.answer.advance(app, columns, room, &mut out);
        }
        Printed { lines: out, pictures }
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
    fn open_text<'a>(&self, answer: &'a str) -> Cow<'a, str> {
        let open = answer.get(self.block..).unwrap_or_default();
        if self.fence.is_empty() { open.into() } else { format!("{}{open}", self.fence).into() }
    }

    /// Prints the part of the answer that no longer changes, and lays out the rest.
    fn advance(&mut self, app: &App, columns: usize, room: usize, out: &mut Vec<Line<'static>>) {
        let answer = app.live.answer.as_str();
        if self.open.0 == answer.len() {
            return;
        }
        let open = self.open_text(answer);
        let (start, is_table) = last_block(&open);
        if start > 0 {
            let done = markdown(open.get(..start).unwrap_or_default().trim_end(), columns, app.theme);
            self.add_blank_before(app, out);
            out.extend(self.rest(&done));
            self.block += start.saturating_sub(self.fence.len());
            self.fence.clear();
            self.lines = 0;
        }
        let mut lines = markdown(self.open_text(answer).trim_end(), columns, app.theme);
        // A long block is printed as it grows, except for its last lines. The columns of a table are known only at its
        // end.
        let keep = room.clamp(1, 6);
        if !is_table && lines.len() > self.lines + keep + 2 {
            self.add_blank_before(app, out);
            let end = lines.len() - keep;
            out.extend(self.rest(lines.get(..end).unwrap_or_default()));
            self.lines = end;
            self.cut(answer, &mut lines, |text| markdown(text, columns, app.theme));
        }
        self.open = (answer.len(), lines);
    }

    /// Takes the beginning of a long paragraph or code block out of the open block, so that it is not laid out for each
    /// frame. The last printed line stays, as a sign that the block has been begun.
    fn cut(&mut self, answer: &str, lines: &mut Vec<Line<'static>>, lay_out: impl Fn(&str) -> Vec<Line<'static>>) {
        let open = self.open_text(answer);
        let text = open.trim_end();
        if text.len() < MIN_CUT_BYTES {
            return;
        }
        if let Some((fence, at)) = code_cut(text, KEPT_CODE_LINES) {
            let left = lay_out(&[fence, text.get(at..).unwrap_or_default()].concat());
            let unprinted = lines.len() - self.lines;
            // Within a comment, what is left would look different without its beginning.
            if left.len() > unprinted && lines.ends_with(&left) {
                self.block += at - self.fence.len();
                fence.clone_into(&mut self.fence);
                self.lines = left.len() - unprinted;
                *lines = left;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::History;
    use crate::policy::Mode;

    /// Prints an answer that arrives in pieces of `piece` bytes. Returns what was printed, and the most lines that were
    /// laid out again for a frame.
    fn printed(answer: &str, piece: usize) -> (Vec<String>, usize) {
        let session = crate::app::SessionInfo::default();
        let mut app = App::new((40, 20), Default::default(), Mode::Ask, session, History::default());
        app.items.clear();
        let (mut printer, mut lines, mut most) = (Printer::default(), Vec::new(), 0);
        let mut end = 0;
        while end < answer.len() {
            end = answer.ceil_char_boundary(end + piece);
            app.live.answer = answer.get(..end).unwrap().to_owned();
            lines.extend(printer.next(&app, 10).lines);
            most = most.max(printer.answer.open.1.len());
        }
        app.items.push(Item::Answer(std::mem::take(&mut app.live.answer)));
        lines.extend(printer.next(&app, 10).lines);
        (lines.iter().map(ToString::to_string).collect(), most)
    }

    #[test]
    fn a_long_code_block_is_printed_once_and_laid_out_only_where_it_grows() {
        let line = |n: usize| match n % 50 {
            7 => format!("/* a comment {n}"),
            12 => "    of several lines */".to_owned(),
            20 => format!("let wide = \"{}\"; // {n}", "漢字".repeat(20)),
            30 | 31 => String::new(),
            _ => format!("    call({n}, \"text\");"),
        };
        let code: String = (0..2_000).map(|n| line(n) + "\n").collect();
        for fence in ["```rust\n", "~~~~ rust\n", "```\n"] {
            let close = fence.trim_end_matches(|c: char| c.is_alphabetic() || c.is_whitespace());
            let answer = format!("Before.\n\n{fence}{code}{close}\n\nAfter *it*.\n");
            let whole = item_lines(&Item::Answer(answer.clone()), 40, crate::theme::Theme::default(), Detail::Full);
            let whole: Vec<String> = whole.iter().map(ToString::to_string).collect();
            for piece in [97, 1_000, 100_000] {
                let (lines, most) = printed(&answer, piece);
                assert!(lines == whole, "{fence} {piece}");
                assert!(piece > 1_000 || most < 500, "{fence} {piece}: {most}");
            }
        }
    }
}
