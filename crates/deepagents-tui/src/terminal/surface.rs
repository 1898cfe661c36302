//! Draws at the end of the terminal's own scrollback.
//!
//! Finished lines are written above a live area and belong to the terminal from then on. The live area is the last rows
//! of the output. It is redrawn with movements relative to its first row, so its position on the screen does not
//! matter, and only changed cells are written.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::graphics::Drawing;
use super::sequences::Sequences;

/// What the terminal shows, and the pending output.
#[derive(Debug)]
pub(crate) struct Surface {
    rows: u16,
    /// The live area as displayed.
    shown: Buffer,
    alternate: bool,
    /// The pending output. Its cursor rows are counted from the first row of the live area.
    out: Sequences,
}

impl Surface {
    /// Creates a surface for a terminal of this size whose cursor is on an empty line.
    pub(crate) fn new(columns: u16, rows: u16, colour: bool, unicode: bool) -> Self {
        let mut out = Sequences::new(columns, colour, unicode);
        out.push(b"\r\x1b[K");
        Self { rows, shown: blank(columns), alternate: false, out }
    }

    pub(crate) fn size(&self) -> (u16, u16) {
        (self.out.columns, self.rows)
    }

    /// Takes the pending output as one frame.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.out.take()
    }

    /// Writes lines above the live area. They are final.
    pub(crate) fn commit(&mut self, lines: &[Line<'_>]) {
        let height = self.shown.area.height;
        let room = usize::from(self.room());
        if room == 0 {
            // No row is free: the lines replace the live area, which is redrawn below them.
            self.out.erase_from(0);
            self.out.lines(lines);
            self.shown = blank(self.out.columns);
            return;
        }
        for part in lines.chunks(room) {
            let count = u16::try_from(part.len()).unwrap_or(u16::MAX);
            // Scrolls to make room, and moves the live area down into it.
            self.out.move_to(0, height.saturating_sub(1));
            self.out.reset_style();
            for _ in 0..count {
                self.out.push(b"\n");
            }
            self.out.up(height.saturating_sub(1) + count);
            self.out.csi(count, b'L');
            self.out.lines(part);
            self.out.at = (0, 0);
        }
    }

    /// Removes the rows of the live area from `height` on, so that the next commit scrolls no further than necessary.
    pub(crate) fn shrink(&mut self, height: u16) {
        if height < self.shown.area.height {
            self.out.erase_from(height);
            self.shown.resize(Rect::new(0, 0, self.out.columns, height));
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
        self.out.move_to(0, 0);
        // Terminals disagree on where an image leaves the cursor.
        self.out.push(b"\x1b7");
        self.out.csi(drawing.rows, b'A');
        self.out.push(&drawing.sequence);
        self.out.push(b"\x1b8");
    }

    /// Draws the live area and places the cursor.
    pub(crate) fn draw(&mut self, next: &Buffer, cursor: Option<(u16, u16)>) {
        let (before, after) = (self.shown.area.height, next.area.height);
        if after > before {
            self.out.move_to(0, before.saturating_sub(1));
            self.out.reset_style();
            for _ in before..after {
                self.out.push(b"\r\n");
            }
            self.out.at = (0, after.saturating_sub(1));
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
                self.out.move_to(x, y);
                self.out.reset_style();
                self.out.push(b"\x1b[K");
                continue;
            }
            self.out.move_to(x, y);
            self.out.set_style(cell.style());
            self.out.sign(cell.symbol());
        }
        self.shown = next.clone();
        match cursor {
            // A cursor below the area would stop at the terminal's last row, and later output would be misplaced.
            Some((x, y)) => {
                let y = y.min(after.saturating_sub(1));
                self.out.move_to(x.min(self.out.columns.saturating_sub(1)), y);
                self.out.show_cursor(true);
            }
            None => self.out.show_cursor(false),
        }
    }

    /// Clears the screen. The scrollback remains.
    pub(crate) fn clear(&mut self, columns: u16, rows: u16) {
        (self.out.columns, self.rows) = (columns, rows);
        self.out.reset_style();
        self.out.push(b"\x1b[H\x1b[J");
        self.shown = blank(columns);
        self.out.at = (0, 0);
    }

    /// Enters or leaves the alternate screen. The next frame is drawn in full.
    pub(crate) fn switch(&mut self, alternate: bool) {
        if self.alternate == alternate {
            return;
        }
        self.alternate = alternate;
        self.out.reset_style();
        if alternate {
            // The saved cursor is in the first row of the live area.
            self.out.move_to(0, 0);
            self.out.push(b"\x1b[?1049h\x1b[H\x1b[J");
        } else {
            self.out.push(b"\x1b[?1049l\x1b[J");
        }
        self.shown = blank(self.out.columns);
        self.out.at = (0, 0);
    }

    /// Erases the live area and leaves the cursor in its first row, for the next program.
    pub(crate) fn leave(&mut self) {
        self.switch(false);
        self.out.erase_from(0);
        self.out.show_cursor(true);
        self.shown = blank(self.out.columns);
    }

    /// Sends a sequence that displays nothing, such as a title or clipboard data.
    pub(crate) fn send(&mut self, sequence: &[u8]) {
        self.out.push(sequence);
    }
}

/// Returns the contents of an empty live area.
fn blank(columns: u16) -> Buffer {
    Buffer::empty(Rect::new(0, 0, columns, 1))
}

/// Returns whether a row is blank from a column on.
fn is_blank(buffer: &Buffer, x: u16, y: u16) -> bool {
    (x..buffer.area.width).all(|x| buffer.cell((x, y)).is_none_or(|cell| *cell == Cell::EMPTY))
}

#[cfg(test)]
mod tests;
