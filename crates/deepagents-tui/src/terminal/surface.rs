//! Draws at the end of the terminal's own scrollback.
//!
//! Finished lines are written above a live area and belong to the terminal from then on. The live area is the last rows
//! of the output. It is redrawn with movements relative to its first row, so its position on the screen does not
//! matter, and only changed cells are written.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use unicode_segmentation::UnicodeSegmentation;

use super::graphics::Drawing;
use super::sgr::sgr;
use crate::text::ascii;

/// What the terminal shows, and the pending output.
#[derive(Debug)]
pub(crate) struct Surface {
    columns: u16,
    rows: u16,
    colour: bool,
    /// Whether characters beyond ASCII are shown.
    unicode: bool,
    /// The live area as displayed.
    shown: Buffer,
    /// The cursor's position relative to the first row of the live area.
    at: (u16, u16),
    cursor: bool,
    style: Option<Style>,
    alternate: bool,
    out: Vec<u8>,
}

impl Surface {
    /// Creates a surface for a terminal of this size whose cursor is on an empty line.
    pub(crate) fn new(columns: u16, rows: u16, colour: bool, unicode: bool) -> Self {
        Self {
            columns,
            rows,
            colour,
            unicode,
            shown: Buffer::empty(Rect::new(0, 0, columns, 1)),
            at: (0, 0),
            cursor: true,
            style: None,
            alternate: false,
            out: b"\r\x1b[K".to_vec(),
        }
    }

    pub(crate) fn size(&self) -> (u16, u16) {
        (self.columns, self.rows)
    }

    pub(crate) fn is_alternate(&self) -> bool {
        self.alternate
    }

    /// Takes the pending output as one frame.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        if self.out.is_empty() {
            return Vec::new();
        }
        self.reset_style();
        let mut frame = Vec::with_capacity(self.out.len() + 16);
        // A short update needs no synchronised output.
        let whole = self.out.len() > 256;
        if whole {
            frame.extend_from_slice(b"\x1b[?2026h");
        }
        frame.append(&mut self.out);
        if whole {
            frame.extend_from_slice(b"\x1b[?2026l");
        }
        frame
    }

    /// Writes lines above the live area. They are final.
    pub(crate) fn commit(&mut self, lines: &[Line<'_>]) {
        let height = self.shown.area.height;
        let room = usize::from(self.room());
        if room == 0 {
            // No row is free: the lines replace the live area, which is redrawn below them.
            self.move_to(0, 0);
            self.reset_style();
            self.out.extend_from_slice(b"\x1b[J");
            for line in lines {
                self.line(line);
                self.out.extend_from_slice(b"\r\n");
            }
            self.shown = Buffer::empty(Rect::new(0, 0, self.columns, 1));
            return;
        }
        for part in lines.chunks(room) {
            let count = u16::try_from(part.len()).unwrap_or(u16::MAX);
            // Scrolls to make room, and moves the live area down into it.
            self.move_to(0, height.saturating_sub(1));
            self.reset_style();
            for _ in 0..count {
                self.out.push(b'\n');
            }
            self.up(height.saturating_sub(1) + count);
            self.csi(count, b'L');
            for line in part {
                self.line(line);
                self.out.extend_from_slice(b"\r\n");
            }
            self.at = (0, 0);
        }
    }

    /// Removes the rows of the live area from `height` on, so that the next commit scrolls no further than necessary.
    pub(crate) fn shrink(&mut self, height: u16) {
        if height < self.shown.area.height {
            self.move_to(0, height);
            self.reset_style();
            self.out.extend_from_slice(b"\x1b[J");
            self.shown.resize(Rect::new(0, 0, self.columns, height));
        }
    }

    /// Returns the number of rows above the live area.
    pub(crate) fn room(&self) -> u16 {
        self.rows.saturating_sub(self.shown.area.height)
    }

    /// Draws an image above the live area. It is final.
    pub(crate) fn picture(&mut self, drawing: &Drawing) {
        if drawing.rows == 0 || drawing.rows > self.room() {
            return;
        }
        self.commit(&vec![Line::default(); usize::from(drawing.rows)]);
        self.move_to(0, 0);
        // Terminals disagree on where an image leaves the cursor.
        self.out.extend_from_slice(b"\x1b7");
        self.csi(drawing.rows, b'A');
        self.out.extend_from_slice(&drawing.sequence);
        self.out.extend_from_slice(b"\x1b8");
    }

    /// Draws the live area and places the cursor.
    pub(crate) fn draw(&mut self, next: &Buffer, cursor: Option<(u16, u16)>) {
        let (before, after) = (self.shown.area.height, next.area.height);
        if after > before {
            self.move_to(0, before.saturating_sub(1));
            self.reset_style();
            for _ in before..after {
                self.out.extend_from_slice(b"\r\n");
            }
            self.at = (0, after.saturating_sub(1));
        }
        self.shrink(after);
        let mut shown = std::mem::take(&mut self.shown);
        shown.resize(next.area);
        let changes: Vec<(u16, u16, Cell)> =
            shown.diff(next).into_iter().map(|(x, y, cell)| (x, y, cell.clone())).collect();
        let mut changes = changes.into_iter().peekable();
        while let Some((x, y, cell)) = changes.next() {
            // A row that is blank from here on is erased at once.
            if cell == Cell::EMPTY && is_blank(next, x, y) {
                while changes.peek().is_some_and(|(_, row, _)| *row == y) {
                    changes.next();
                }
                self.move_to(x, y);
                self.reset_style();
                self.out.extend_from_slice(b"\x1b[K");
                continue;
            }
            self.move_to(x, y);
            self.set_style(cell.style());
            if self.unicode {
                self.out.extend_from_slice(cell.symbol().as_bytes());
            } else {
                self.out.extend_from_slice(ascii(cell.symbol()).as_bytes());
            }
            let width = u16::try_from(crate::text::width(cell.symbol())).unwrap_or(1);
            // Terminals disagree on the width of a grapheme with several characters, so the next one is positioned
            // explicitly.
            let is_sure = cell.symbol().chars().nth(1).is_none();
            self.at.0 = if is_sure { x.saturating_add(width.max(1)) } else { u16::MAX };
        }
        self.shown = next.clone();
        match cursor {
            Some((x, y)) => {
                self.move_to(x.min(self.columns.saturating_sub(1)), y);
                self.show_cursor(true);
            }
            None => self.show_cursor(false),
        }
    }

    fn show_cursor(&mut self, on: bool) {
        if self.cursor != on {
            self.cursor = on;
            self.out.extend_from_slice(if on { b"\x1b[?25h" } else { b"\x1b[?25l" });
        }
    }

    /// Clears the screen. The scrollback remains.
    pub(crate) fn clear(&mut self, columns: u16, rows: u16) {
        (self.columns, self.rows) = (columns, rows);
        self.reset_style();
        self.out.extend_from_slice(b"\x1b[H\x1b[J");
        self.shown = Buffer::empty(Rect::new(0, 0, columns, 1));
        self.at = (0, 0);
    }

    /// Enters or leaves the alternate screen. The next frame is drawn in full.
    pub(crate) fn switch(&mut self, alternate: bool) {
        if self.alternate == alternate {
            return;
        }
        self.alternate = alternate;
        self.reset_style();
        if alternate {
            // The saved cursor is in the first row of the live area.
            self.move_to(0, 0);
            self.out.extend_from_slice(b"\x1b[?1049h\x1b[H\x1b[J");
        } else {
            self.out.extend_from_slice(b"\x1b[?1049l\x1b[J");
        }
        self.shown = Buffer::empty(Rect::new(0, 0, self.columns, 1));
        self.at = (0, 0);
    }

    /// Erases the live area and leaves the cursor in its first row, for the next program.
    pub(crate) fn leave(&mut self) {
        if self.alternate {
            self.switch(false);
        }
        self.move_to(0, 0);
        self.reset_style();
        self.out.extend_from_slice(b"\x1b[J");
        self.show_cursor(true);
        self.shown = Buffer::empty(Rect::new(0, 0, self.columns, 1));
    }

    /// Sends a sequence that displays nothing, such as a title or clipboard data.
    pub(crate) fn send(&mut self, sequence: &[u8]) {
        self.out.extend_from_slice(sequence);
    }

    fn line(&mut self, line: &Line<'_>) {
        // The next column, and whether the terminal is sure to agree.
        let (mut column, mut is_sure) = (0, true);
        for span in &line.spans {
            self.set_style(line.style.patch(span.style));
            if !self.unicode {
                self.out.extend(ascii(&span.content).bytes().filter(|byte| !byte.is_ascii_control()));
                continue;
            }
            for sign in span.content.graphemes(true).filter(|sign| !sign.contains(char::is_control)) {
                if !std::mem::replace(&mut is_sure, sign.chars().nth(1).is_none()) && column < self.columns {
                    self.csi(column + 1, b'G');
                }
                self.out.extend_from_slice(sign.as_bytes());
                column = column.saturating_add(u16::try_from(crate::text::width(sign)).unwrap_or(1));
            }
        }
        self.reset_style();
    }

    fn set_style(&mut self, style: Style) {
        if self.style != Some(style) && !(self.style.is_none() && is_plain(style)) {
            sgr(style, self.colour, &mut self.out);
            self.style = (!is_plain(style)).then_some(style);
        }
    }

    fn reset_style(&mut self) {
        if self.style.take().is_some() {
            self.out.extend_from_slice(b"\x1b[0m");
        }
    }

    fn move_to(&mut self, x: u16, y: u16) {
        let (from_x, from_y) = self.at;
        if y < from_y {
            self.up(from_y - y);
        } else if y > from_y {
            self.csi(y - from_y, b'B');
        }
        if x == 0 && (from_x != 0 || from_x >= self.columns) {
            self.out.push(b'\r');
        } else if x != from_x {
            // An absolute column, because terminals disagree on where the cursor is after the last one.
            self.csi(x + 1, b'G');
        }
        self.at = (x, y);
    }

    fn up(&mut self, rows: u16) {
        if rows > 0 {
            self.csi(rows, b'A');
        }
    }

    fn csi(&mut self, number: u16, end: u8) {
        self.out.extend_from_slice(format!("\x1b[{number}").as_bytes());
        self.out.push(end);
    }
}

fn is_plain(style: Style) -> bool {
    let no = |color: Option<ratatui::style::Color>| matches!(color, None | Some(ratatui::style::Color::Reset));
    no(style.fg) && no(style.bg) && style.add_modifier.is_empty()
}

/// Returns whether a row is blank from a column on.
fn is_blank(buffer: &Buffer, x: u16, y: u16) -> bool {
    (x..buffer.area.width).all(|x| buffer.cell((x, y)).is_none_or(|cell| *cell == Cell::EMPTY))
}

#[cfg(test)]
mod tests;
