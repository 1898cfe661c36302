//! Escape sequences that move the cursor, set styles and write text, based on the known state of the terminal.

use ratatui::style::{Color, Style};
use ratatui::text::Line;
use unicode_segmentation::UnicodeSegmentation;

use super::sgr::sgr;
use crate::text::{ascii, width};

/// Pending output, and the position of the cursor after it.
#[derive(Debug)]
pub(super) struct Sequences {
    pub(super) columns: u16,
    colour: bool,
    /// Whether characters beyond ASCII are shown.
    unicode: bool,
    /// The position of the cursor. A column outside the terminal means that it is unknown, so the next output is
    /// positioned explicitly.
    pub(super) at: (u16, u16),
    cursor: bool,
    style: Option<Style>,
    bytes: Vec<u8>,
}

impl Sequences {
    /// Creates the state for a terminal with this many columns, with the cursor at the origin.
    pub(super) fn new(columns: u16, colour: bool, unicode: bool) -> Self {
        Self { columns, colour, unicode, at: (0, 0), cursor: true, style: None, bytes: Vec::new() }
    }

    /// Takes the pending output as one frame.
    pub(super) fn take(&mut self) -> Vec<u8> {
        if self.bytes.is_empty() {
            return Vec::new();
        }
        self.reset_style();
        let mut frame = Vec::with_capacity(self.bytes.len() + 16);
        // A short update needs no synchronised output.
        let whole = self.bytes.len() > 256;
        if whole {
            frame.extend_from_slice(b"\x1b[?2026h");
        }
        frame.append(&mut self.bytes);
        if whole {
            frame.extend_from_slice(b"\x1b[?2026l");
        }
        frame
    }

    /// Appends raw bytes. The caller updates the cursor position.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes a grapheme of the live area at the cursor.
    pub(super) fn sign(&mut self, sign: &str) {
        self.text(sign);
        let wide = u16::try_from(width(sign)).unwrap_or(1).max(1);
        // Terminals disagree on the width of a grapheme with several characters, so the next one is positioned
        // explicitly.
        let is_sure = sign.chars().nth(1).is_none();
        self.at.0 = if is_sure { self.at.0.saturating_add(wide) } else { u16::MAX };
    }

    pub(super) fn show_cursor(&mut self, on: bool) {
        if self.cursor != on {
            self.cursor = on;
            self.bytes.extend_from_slice(if on { b"\x1b[?25h" } else { b"\x1b[?25l" });
        }
    }

    /// Erases the rows from `y` on.
    pub(super) fn erase_from(&mut self, y: u16) {
        self.move_to(0, y);
        self.reset_style();
        self.push(b"\x1b[J");
    }

    /// Writes lines, each with a line break after it. The caller updates the cursor position.
    pub(super) fn lines(&mut self, lines: &[Line<'_>]) {
        for line in lines {
            self.line(line);
            self.push(b"\r\n");
        }
    }

    /// Writes a line. What does not fit is left out, as the terminal would continue it on another row.
    fn line(&mut self, line: &Line<'_>) {
        // The next column, and whether the terminal is sure to agree.
        let (mut column, mut is_sure) = (0, true);
        'line: for span in &line.spans {
            self.set_style(line.style.patch(span.style));
            for sign in span.content.graphemes(true).filter(|sign| !sign.contains(char::is_control)) {
                let end = column + u16::try_from(width(sign)).unwrap_or(1);
                if end > self.columns {
                    break 'line;
                }
                if !std::mem::replace(&mut is_sure, !self.unicode || sign.chars().nth(1).is_none()) {
                    self.csi(column + 1, b'G');
                }
                self.text(sign);
                column = end;
            }
        }
        self.reset_style();
    }

    fn text(&mut self, text: &str) {
        if self.unicode {
            self.push(text.as_bytes());
        } else {
            self.push(ascii(text).as_bytes());
        }
    }

    pub(super) fn set_style(&mut self, style: Style) {
        if self.style != Some(style) && !(self.style.is_none() && is_plain(style)) {
            sgr(style, self.colour, &mut self.bytes);
            self.style = (!is_plain(style)).then_some(style);
        }
    }

    pub(super) fn reset_style(&mut self) {
        if self.style.take().is_some() {
            self.bytes.extend_from_slice(b"\x1b[0m");
        }
    }

    pub(super) fn move_to(&mut self, x: u16, y: u16) {
        let (from_x, from_y) = self.at;
        if y < from_y {
            self.up(from_y - y);
        } else if y > from_y {
            self.csi(y - from_y, b'B');
        }
        if x == 0 && (from_x != 0 || from_x >= self.columns) {
            self.bytes.push(b'\r');
        } else if x != from_x {
            // An absolute column, because terminals disagree on where the cursor is after the last one.
            self.csi(x + 1, b'G');
        }
        self.at = (x, y);
    }

    pub(super) fn up(&mut self, rows: u16) {
        if rows > 0 {
            self.csi(rows, b'A');
        }
    }

    pub(super) fn csi(&mut self, number: u16, end: u8) {
        self.bytes.extend_from_slice(format!("\x1b[{number}").as_bytes());
        self.bytes.push(end);
    }
}

fn is_plain(style: Style) -> bool {
    let no = |color: Option<Color>| matches!(color, None | Some(Color::Reset));
    no(style.fg) && no(style.bg) && style.add_modifier.is_empty()
}
