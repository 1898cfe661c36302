//! A multi-line text editor: the text, the cursor and the kill buffer.

use unicode_segmentation::UnicodeSegmentation;

use super::pastes::{Pastes, foreign, is_letter};

/// A paste of more lines or bytes than this is shown as a placeholder.
const MAX_PASTE_LINES: usize = 8;
const MAX_PASTE_BYTES: usize = 1_000;
/// Maximum number of changes that can be undone.
const MAX_CHANGES: usize = 100;

/// The text, the cursor, and the pastes behind placeholders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Editor {
    /// The text. Each paste shown as a placeholder is one character of it.
    pub(super) text: String,
    /// A byte offset on a grapheme boundary.
    pub(super) cursor: usize,
    pub(super) pastes: Pastes,
    /// The kill buffer.
    pub(super) killed: String,
    /// Whether the last key typed a character or killed text, as the next key may continue that.
    pub(super) typing: bool,
    pub(super) killing: bool,
    /// The text and cursor before each undo, and those before each change.
    redo_stack: Vec<(String, usize)>,
    undo_stack: Vec<(String, usize)>,
    /// Whether changes are grouped into one.
    together: bool,
}

impl Editor {
    /// Creates an editor of a text, with the cursor at its end.
    pub(crate) fn with_text(text: impl AsRef<str>) -> Self {
        let mut editor = Self::default();
        editor.set(text);
        editor
    }

    /// Returns the text as edited, in which a placeholder is one character.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns whether the text is empty or white space.
    pub(crate) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Replaces the text.
    pub(crate) fn set(&mut self, text: impl AsRef<str>) {
        let text = self.pastes.editable(text.as_ref());
        self.put_in_place(text);
    }

    /// Puts a text on lines before the present one.
    pub(crate) fn put_before(&mut self, text: &str) {
        let text = self.pastes.editable(text);
        let apart = if self.is_empty() { "" } else { "\n" };
        self.put_in_place(format!("{text}{apart}{}", self.text));
    }

    /// Restores an earlier [`text`](Self::text) with its placeholders.
    pub(crate) fn restore(&mut self, text: &str) {
        self.put_in_place(self.pastes.known(text));
    }

    fn put_in_place(&mut self, text: String) {
        if text != self.text {
            self.save_undo_state();
        }
        self.break_undo_group();
        self.text = text;
        self.cursor = self.text.len();
    }

    pub(crate) fn clear(&mut self) {
        self.break_undo_group();
        self.text.clear();
        self.cursor = 0;
        self.undo_stack.clear();
        self.redo_stack.clear();
        self.together = false;
        // The kill buffer can be inserted into the next text.
        self.pastes.retain_in(&self.killed);
    }

    /// Returns the text with its placeholders expanded.
    pub(crate) fn expanded(&self) -> String {
        self.pastes.expand(&self.text)
    }

    /// Returns the expanded text and clears the input.
    pub(crate) fn take(&mut self) -> String {
        let text = self.expanded();
        self.clear();
        text
    }

    pub(crate) fn insert(&mut self, text: &str) {
        self.save_undo_state();
        self.break_undo_group();
        self.add(&foreign(text));
    }

    /// Inserts a paste without control characters; a long one becomes a placeholder.
    pub(crate) fn paste(&mut self, text: &str) {
        let plain = text.replace("\r\n", "\n").replace('\r', "\n");
        let plain: String = plain.chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect();
        let plain = foreign(&plain).into_owned();
        if plain.split('\n').count() <= MAX_PASTE_LINES && plain.len() <= MAX_PASTE_BYTES {
            self.insert(&plain);
            return;
        }
        match self.pastes.add(plain.clone()) {
            Some(mark) => {
                self.save_undo_state();
                self.break_undo_group();
                self.add(mark.encode_utf8(&mut [0; 4]));
            }
            None => self.insert(&plain),
        }
    }

    pub(super) fn add(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    /// Makes the next key start a new change.
    pub(super) fn break_undo_group(&mut self) {
        (self.typing, self.killing) = (false, false);
    }

    /// Records the text before a change.
    pub(super) fn save_undo_state(&mut self) {
        if self.together {
            return;
        }
        self.redo_stack.clear();
        self.undo_stack.push((self.text.clone(), self.cursor));
        if self.undo_stack.len() > MAX_CHANGES {
            self.undo_stack.remove(0);
        }
    }

    /// Starts a group of changes that is undone as one.
    pub(super) fn begin_change(&mut self) {
        self.save_undo_state();
        self.together = true;
    }

    pub(super) fn end_change(&mut self) {
        self.together = false;
    }

    /// Undoes the last change.
    pub(super) fn undo(&mut self) {
        let now = (self.text.clone(), self.cursor);
        while let Some((text, cursor)) = self.undo_stack.pop() {
            // Skips entries that changed nothing.
            if text != now.0 {
                self.redo_stack.push(now);
                (self.text, self.cursor) = (text, cursor);
                return;
            }
        }
    }

    /// Redoes the last undone change.
    pub(super) fn redo(&mut self) {
        if let Some((text, cursor)) = self.redo_stack.pop() {
            self.undo_stack
                .push((std::mem::replace(&mut self.text, text), std::mem::replace(&mut self.cursor, cursor)));
        }
    }

    /// Returns the text before the cursor.
    pub(crate) fn before(&self) -> &str {
        self.text.get(..self.cursor).unwrap_or_default()
    }

    pub(super) fn after(&self) -> &str {
        self.text.get(self.cursor..).unwrap_or_default()
    }

    /// Returns the word that ends at the cursor, and its position.
    pub(crate) fn word_before(&self) -> (usize, &str) {
        let start = self.before().trim_end_matches(|c: char| !c.is_whitespace()).len();
        (start, self.text.get(start..self.cursor).unwrap_or_default())
    }

    /// Returns the file name after `@` that ends at the cursor, and the position of the `@`. The name may be quoted.
    pub(crate) fn file_before(&self) -> Option<(usize, &str)> {
        let (start, word) = self.word_before();
        let quoted = || {
            let (before, name) = self.before().rsplit_once("@\"")?;
            let is_open = !name.contains(['"', '\n']) && !before.ends_with(|c: char| !c.is_whitespace());
            is_open.then_some((before.len(), name))
        };
        word.strip_prefix('@').filter(|name| !name.starts_with('"')).map(|name| (start, name)).or_else(quoted)
    }

    /// Replaces the text from a position to the cursor.
    pub(crate) fn replace_from(&mut self, start: usize, with: &str) {
        self.save_undo_state();
        self.break_undo_group();
        self.remove(start, self.cursor);
        self.add(&foreign(with));
    }

    pub(super) fn remove(&mut self, from: usize, to: usize) -> String {
        if from >= to || !self.text.is_char_boundary(from) || !self.text.is_char_boundary(to) {
            return String::new();
        }
        self.cursor = from;
        self.text.drain(from..to).collect()
    }

    /// Moves a part of the text to the kill buffer. `more` adds to the buffer, because the previous key killed text
    /// too.
    pub(super) fn kill(&mut self, from: usize, to: usize, more: bool) {
        let backwards = from < self.cursor;
        let removed = self.remove(from, to);
        self.killing = more || !removed.is_empty();
        match (more, backwards) {
            (true, true) => self.killed.insert_str(0, &removed),
            (true, false) => self.killed.push_str(&removed),
            (false, _) if removed.is_empty() => {}
            (false, _) => self.killed = removed,
        }
    }

    pub(super) fn left(&self) -> usize {
        self.cursor - self.before().graphemes(true).next_back().map_or(0, str::len)
    }

    pub(super) fn right(&self) -> usize {
        self.after_letter(self.cursor)
    }

    pub(super) fn line_start(&self) -> usize {
        self.before().rfind('\n').map_or(0, |at| at + 1)
    }

    pub(super) fn line_end(&self) -> usize {
        self.after().find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    pub(super) fn word_left(&self) -> usize {
        let trimmed = self.before().trim_end_matches(|c: char| !is_letter(c));
        trimmed.trim_end_matches(is_letter).len()
    }

    pub(super) fn word_right(&self) -> usize {
        let after = self.after();
        let skipped = after.trim_start_matches(|c: char| !is_letter(c));
        self.text.len() - skipped.trim_start_matches(is_letter).len()
    }

    /// Returns the start of the word before the cursor, where words are separated by white space.
    pub(super) fn blank_left(&self) -> usize {
        self.before().trim_end().trim_end_matches(|c: char| !c.is_whitespace()).len()
    }

    pub(super) fn cursor_to(&mut self, at: usize) {
        self.break_undo_group();
        if self.text.is_char_boundary(at) {
            self.cursor = at;
        }
    }

    pub(super) fn at_line_start(&self) -> bool {
        self.cursor == self.line_start()
    }

    /// Returns the position after the grapheme at a position.
    pub(super) fn after_letter(&self, at: usize) -> usize {
        at + self.text.get(at..).unwrap_or_default().graphemes(true).next().map_or(0, str::len)
    }

    /// Inserts the kill buffer.
    pub(super) fn put(&mut self) {
        let killed = self.pastes.known(&self.killed);
        self.add(&killed);
    }
}
