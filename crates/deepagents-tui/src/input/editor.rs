//! A text of several lines that is edited with the keys of a shell.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;

use crate::text::{count, visible, width};

/// A paste of more lines or bytes than this is shown as a placeholder.
const LINES: usize = 8;
const BYTES: usize = 1_000;

/// The text, the cursor in it, and what its placeholders stand for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Editor {
    text: String,
    /// In bytes, between two graphemes.
    cursor: usize,
    pastes: Vec<(String, String)>,
    killed: String,
}

/// A row of the text as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) text: String,
}

impl Editor {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn set(&mut self, text: impl Into<String>) {
        self.text = text.into();
        self.cursor = self.text.len();
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.pastes.clear();
        self.cursor = 0;
    }

    /// The text with what its placeholders stand for.
    pub(crate) fn expanded(&self) -> String {
        self.pastes.iter().fold(self.text.clone(), |text, (placeholder, paste)| text.replacen(placeholder, paste, 1))
    }

    /// The text, and an empty input after it.
    pub(crate) fn take(&mut self) -> String {
        let text = self.expanded();
        self.clear();
        text
    }

    pub(crate) fn insert(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    /// Takes a paste in: without control characters, and as a placeholder where it is long.
    pub(crate) fn paste(&mut self, text: &str) {
        let plain = text.replace("\r\n", "\n").replace('\r', "\n");
        let plain: String = plain.chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect();
        let lines = plain.split('\n').count();
        if lines <= LINES && plain.len() <= BYTES {
            self.insert(&plain);
            return;
        }
        let number = self.pastes.len() + 1;
        let placeholder =
            format!("[Pasted text #{number}: {}, {}]", count(lines as u64, "line"), count(plain.len() as u64, "byte"));
        self.insert(&placeholder);
        self.pastes.push((placeholder, plain));
    }

    fn before(&self) -> &str {
        self.text.get(..self.cursor).unwrap_or_default()
    }

    fn after(&self) -> &str {
        self.text.get(self.cursor..).unwrap_or_default()
    }

    /// The word that the cursor stands at the end of, from its first byte on.
    pub(crate) fn word_before(&self) -> (usize, &str) {
        let start = self.before().rfind(char::is_whitespace).map_or(0, |at| {
            at + self.before().get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
        });
        (start, self.text.get(start..self.cursor).unwrap_or_default())
    }

    /// Puts something in the place of the text from a byte to the cursor.
    pub(crate) fn replace_from(&mut self, start: usize, with: &str) {
        self.remove(start, self.cursor);
        self.insert(with);
    }

    fn remove(&mut self, from: usize, to: usize) -> String {
        if from >= to || !self.text.is_char_boundary(from) || !self.text.is_char_boundary(to) {
            return String::new();
        }
        self.cursor = from;
        self.text.drain(from..to).collect()
    }

    pub(super) fn kill(&mut self, from: usize, to: usize) {
        let killed = self.remove(from, to);
        if !killed.is_empty() {
            self.killed = killed;
        }
    }

    pub(super) fn left(&self) -> usize {
        self.cursor - self.before().graphemes(true).next_back().map_or(0, str::len)
    }

    pub(super) fn right(&self) -> usize {
        self.cursor + self.after().graphemes(true).next().map_or(0, str::len)
    }

    pub(super) fn line_start(&self) -> usize {
        self.before().rfind('\n').map_or(0, |at| at + 1)
    }

    pub(super) fn line_end(&self) -> usize {
        self.after().find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    pub(super) fn word_left(&self) -> usize {
        let trimmed = self.before().trim_end_matches(|c: char| !c.is_alphanumeric());
        trimmed.trim_end_matches(char::is_alphanumeric).len()
    }

    fn word_right(&self) -> usize {
        let after = self.after();
        let skipped = after.trim_start_matches(|c: char| !c.is_alphanumeric());
        self.text.len() - skipped.trim_start_matches(char::is_alphanumeric).len()
    }

    /// Where the word before the cursor begins that blanks end.
    fn blank_left(&self) -> usize {
        let trimmed = self.before().trim_end();
        trimmed
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + trimmed.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8))
    }

    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(super) fn cursor_to(&mut self, at: usize) {
        if self.text.is_char_boundary(at) {
            self.cursor = at;
        }
    }

    pub(super) fn at_line_start(&self) -> bool {
        self.cursor == self.line_start()
    }

    /// Where the next word begins.
    pub(super) fn next_word(&self) -> usize {
        let after = self.after();
        let rest = after.trim_start_matches(char::is_alphanumeric);
        let rest = if rest.len() == after.len() { after.trim_start_matches(is_mark) } else { rest };
        self.text.len() - rest.trim_start().len()
    }

    /// The last letter of the word, or of the next one where the cursor is at an end.
    pub(super) fn word_end(&self) -> usize {
        let start = self.right();
        let after = self.text.get(start..).unwrap_or_default();
        let blanks = after.len() - after.trim_start().len();
        let word = after.trim_start();
        let letters = word.len() - word.trim_start_matches(char::is_alphanumeric).len();
        let length = if letters > 0 { letters } else { word.len() - word.trim_start_matches(is_mark).len() };
        let end = word.get(..length).unwrap_or_default();
        let last = end.graphemes(true).next_back().map_or(0, str::len);
        start + blanks + length - last
    }

    /// The place behind the letter at a place.
    pub(super) fn after_letter(&self, at: usize) -> usize {
        at + self.text.get(at..).unwrap_or_default().graphemes(true).next().map_or(0, str::len)
    }

    /// Copies a part, to be put elsewhere.
    pub(super) fn yank(&mut self, from: usize, to: usize) {
        self.text.get(from..to).unwrap_or_default().clone_into(&mut self.killed);
    }

    /// Inserts what was cut or copied last.
    pub(super) fn put(&mut self) {
        let killed = self.killed.clone();
        self.insert(&killed);
    }

    /// A placeholder that the cursor stands behind.
    fn placeholder_before(&self) -> Option<usize> {
        let before = self.before();
        let (placeholder, _) = self.pastes.iter().find(|(placeholder, _)| before.ends_with(placeholder.as_str()))?;
        Some(self.cursor - placeholder.len())
    }

    /// Takes a key; says whether it is one that edits.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::Char('j') if control => self.insert("\n"),
            KeyCode::Enter if alt || key.modifiers.contains(KeyModifiers::SHIFT) => self.insert("\n"),
            KeyCode::Char('a') if control => self.cursor = self.line_start(),
            KeyCode::Home => self.cursor = self.line_start(),
            KeyCode::Char('e') if control => self.cursor = self.line_end(),
            KeyCode::End => self.cursor = self.line_end(),
            KeyCode::Char('b') if alt => self.cursor = self.word_left(),
            KeyCode::Char('f') if alt => self.cursor = self.word_right(),
            KeyCode::Left if control || alt => self.cursor = self.word_left(),
            KeyCode::Right if control || alt => self.cursor = self.word_right(),
            KeyCode::Char('b') if control => self.cursor = self.left(),
            KeyCode::Char('f') if control => self.cursor = self.right(),
            KeyCode::Left => self.cursor = self.left(),
            KeyCode::Right => self.cursor = self.right(),
            KeyCode::Char('w') if control => self.kill(self.blank_left(), self.cursor),
            KeyCode::Backspace if alt => self.kill(self.word_left(), self.cursor),
            KeyCode::Char('d') if alt => self.kill(self.cursor, self.word_right()),
            KeyCode::Char('u') if control => self.kill(self.line_start(), self.cursor),
            KeyCode::Char('k') if control => {
                let end = self.line_end();
                // At the end of a line its end is taken away.
                let end = if end == self.cursor { self.right() } else { end };
                self.kill(self.cursor, end);
            }
            KeyCode::Char('y') if control => self.put(),
            KeyCode::Backspace | KeyCode::Char('h') if key.code == KeyCode::Backspace || control => {
                let from = self.placeholder_before().unwrap_or_else(|| self.left());
                self.remove(from, self.cursor);
            }
            KeyCode::Delete => {
                self.remove(self.cursor, self.right());
            }
            KeyCode::Char('d') if control => {
                self.remove(self.cursor, self.right());
            }
            KeyCode::Char(c) if !control && !alt && !c.is_control() => {
                let mut bytes = [0; 4];
                self.insert(c.encode_utf8(&mut bytes));
            }
            _ => return false,
        }
        true
    }

    /// Moves to the line above; says whether there is one.
    pub(crate) fn up(&mut self) -> bool {
        let start = self.line_start();
        if start == 0 {
            return false;
        }
        let column = width(self.text.get(start..self.cursor).unwrap_or_default());
        self.cursor = start - 1;
        let above = self.line_start();
        self.cursor = self.at_column(above, column);
        true
    }

    /// Moves to the line below; says whether there is one.
    pub(crate) fn down(&mut self) -> bool {
        let end = self.line_end();
        if end == self.text.len() {
            return false;
        }
        let column = width(self.text.get(self.line_start()..self.cursor).unwrap_or_default());
        self.cursor = self.at_column(end + 1, column);
        true
    }

    fn at_column(&self, start: usize, column: usize) -> usize {
        let line = self.text.get(start..).unwrap_or_default();
        let line = line.split('\n').next().unwrap_or_default();
        let (mut at, mut used) = (start, 0);
        for grapheme in line.graphemes(true) {
            if used >= column {
                break;
            }
            used += width(grapheme);
            at += grapheme.len();
        }
        at
    }

    /// The rows of the text in so many columns, and where the cursor is among them.
    pub(crate) fn rows(&self, columns: usize) -> (Vec<Row>, (usize, usize)) {
        let columns = columns.max(2);
        let (mut rows, mut row, mut used, mut cursor) = (Vec::new(), String::new(), 0, (0, 0));
        let mut at = 0;
        for grapheme in self.text.graphemes(true) {
            if at == self.cursor {
                cursor = (used, rows.len());
            }
            at += grapheme.len();
            if grapheme == "\n" || grapheme == "\r\n" {
                rows.push(Row { text: std::mem::take(&mut row) });
                used = 0;
                continue;
            }
            let shown = if grapheme == "\t" { "    ".into() } else { visible(grapheme) };
            let wide = width(&shown);
            if used + wide > columns {
                rows.push(Row { text: std::mem::take(&mut row) });
                used = 0;
                if at - grapheme.len() == self.cursor {
                    cursor = (0, rows.len());
                }
            }
            row.push_str(&shown);
            used += wide;
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

/// A letter that is neither a blank nor part of a word.
fn is_mark(c: char) -> bool {
    !c.is_alphanumeric() && !c.is_whitespace()
}
