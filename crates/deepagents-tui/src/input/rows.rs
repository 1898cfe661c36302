//! The layout of the text in rows, and vertical cursor movement.

use unicode_segmentation::UnicodeSegmentation;

use super::Editor;
use crate::text::{visible, width};

impl Editor {
    /// Moves to the line above. Returns whether there is one.
    pub(crate) fn up(&mut self) -> bool {
        self.break_undo_group();
        let start = self.line_start();
        if start == 0 {
            return false;
        }
        let column = self.columns_of(self.text.get(start..self.cursor).unwrap_or_default());
        self.cursor = start - 1;
        let above = self.line_start();
        self.cursor = self.at_column(above, column);
        true
    }

    /// Moves to the line below. Returns whether there is one.
    pub(crate) fn down(&mut self) -> bool {
        self.break_undo_group();
        let end = self.line_end();
        if end == self.text.len() {
            return false;
        }
        let column = self.columns_of(self.text.get(self.line_start()..self.cursor).unwrap_or_default());
        self.cursor = self.at_column(end + 1, column);
        true
    }

    fn columns_of(&self, text: &str) -> usize {
        text.graphemes(true).flat_map(|grapheme| self.shown(grapheme)).map(|piece| width(&piece)).sum()
    }

    fn at_column(&self, start: usize, column: usize) -> usize {
        let line = self.text.get(start..).unwrap_or_default();
        let line = line.split('\n').next().unwrap_or_default();
        let (mut at, mut used) = (start, 0);
        for grapheme in line.graphemes(true) {
            if used >= column {
                break;
            }
            used += self.columns_of(grapheme);
            at += grapheme.len();
        }
        at
    }

    /// Returns the displayed form of a grapheme, in pieces that are not split across rows.
    fn shown(&self, grapheme: &str) -> Vec<String> {
        if grapheme == "\t" {
            return vec!["    ".to_owned()];
        }
        let Some(label) = grapheme.chars().find_map(|c| self.pastes.label(c)) else {
            return vec![visible(grapheme).into_owned()];
        };
        label.chars().map(String::from).collect()
    }

    /// Returns the rows of the text at this width, and the cursor's column and row.
    pub(crate) fn rows(&self, columns: usize) -> (Vec<String>, (usize, usize)) {
        let mut rows = Rows { columns: columns.max(2), rows: Vec::new(), cursor: (0, 0) };
        let mut at = 0;
        for line in self.text.split('\n') {
            let here = self.cursor.checked_sub(at).filter(|here| *here <= line.len());
            // Long texts are mostly ASCII, which needs no iteration over graphemes.
            if line.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
                rows.plain(line, here);
            } else {
                rows.line(self, line, here);
            }
            at += line.len() + 1;
        }
        rows.wrap_cursor();
        (rows.rows, rows.cursor)
    }
}

/// The layout of a text into rows.
struct Rows {
    columns: usize,
    rows: Vec<String>,
    cursor: (usize, usize),
}

impl Rows {
    /// Lays out a line of characters that are all one column wide.
    fn plain(&mut self, line: &str, cursor: Option<usize>) {
        let (above, full) = (self.rows.len(), line.len() / self.columns);
        let mut rest = line;
        while let Some((row, more)) = rest.split_at_checked(self.columns) {
            self.rows.push(row.to_owned());
            rest = more;
        }
        if !rest.is_empty() || line.is_empty() {
            self.rows.push(rest.to_owned());
        }
        self.cursor = match cursor {
            // After the last character of a full row, because no row follows.
            Some(end) if end == line.len() && rest.is_empty() && full > 0 => (self.columns, above + full - 1),
            Some(at) => (at % self.columns, above + at / self.columns),
            None => self.cursor,
        };
    }

    /// Lays out a line of any characters.
    fn line(&mut self, editor: &Editor, line: &str, cursor: Option<usize>) {
        let (mut row, mut used, mut at) = (String::new(), 0, 0);
        for grapheme in line.graphemes(true) {
            let mut is_here = cursor == Some(at);
            at += grapheme.len();
            for piece in editor.shown(grapheme) {
                let wide = width(&piece);
                if used + wide > self.columns {
                    self.rows.push(std::mem::take(&mut row));
                    used = 0;
                }
                if std::mem::take(&mut is_here) {
                    self.cursor = (used, self.rows.len());
                }
                row.push_str(&piece);
                used += wide;
            }
        }
        if cursor == Some(at) {
            self.cursor = (used, self.rows.len());
        }
        self.rows.push(row);
    }

    /// Moves a cursor after a full last row to a new row, where the next character will go.
    fn wrap_cursor(&mut self) {
        let (x, y) = self.cursor;
        if x >= self.columns && y + 1 == self.rows.len() {
            self.rows.push(String::new());
            self.cursor = (0, y + 1);
        }
    }
}
