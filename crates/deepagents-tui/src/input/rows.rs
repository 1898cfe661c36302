//! The layout of the text in rows, and vertical cursor movement.

use unicode_segmentation::UnicodeSegmentation;

use super::Editor;
use crate::text::{visible, width};

/// A displayed row of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) text: String,
}

impl Editor {
    /// Moves to the line above. Returns whether there is one.
    pub(crate) fn up(&mut self) -> bool {
        self.settle();
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
        self.settle();
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
    pub(crate) fn rows(&self, columns: usize) -> (Vec<Row>, (usize, usize)) {
        let columns = columns.max(2);
        let (mut rows, mut row, mut used, mut cursor) = (Vec::new(), String::new(), 0, (0, 0));
        let mut at = 0;
        for grapheme in self.text.graphemes(true) {
            let mut is_here = at == self.cursor;
            at += grapheme.len();
            if grapheme == "\n" || grapheme == "\r\n" {
                if is_here {
                    cursor = (used, rows.len());
                }
                rows.push(Row { text: std::mem::take(&mut row) });
                used = 0;
                continue;
            }
            for piece in self.shown(grapheme) {
                let wide = width(&piece);
                if used + wide > columns {
                    rows.push(Row { text: std::mem::take(&mut row) });
                    used = 0;
                }
                if std::mem::take(&mut is_here) {
                    cursor = (used, rows.len());
                }
                row.push_str(&piece);
                used += wide;
            }
        }
        if self.cursor >= at {
            if used >= columns {
                rows.push(Row { text: std::mem::take(&mut row) });
                used = 0;
            }
            cursor = (used, rows.len());
        }
        rows.push(Row { text: row });
        (rows, cursor)
    }
}
