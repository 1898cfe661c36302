//! The default key bindings, which are those of a shell.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;

use super::Editor;
use super::pastes::is_paste;

/// How the case of a word is changed.
#[derive(Clone, Copy)]
enum Case {
    Upper,
    Lower,
    Capital,
}

impl Editor {
    /// Handles a key. Returns whether it is an editing key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let (typing, killing) = (self.typing, self.killing);
        self.break_undo_group();
        match key.code {
            KeyCode::Char('a') if control => self.cursor = self.line_start(),
            KeyCode::Home => self.cursor = self.line_start(),
            KeyCode::Char('e') if control => self.cursor = self.line_end(),
            KeyCode::End => self.cursor = self.line_end(),
            KeyCode::Char('b') if alt => self.cursor = self.word_left(),
            KeyCode::Char('f') if alt => self.cursor = self.word_right(),
            KeyCode::Char('<') if alt => self.cursor = 0,
            KeyCode::Char('>') if alt => self.cursor = self.text.len(),
            KeyCode::Left if control || alt => self.cursor = self.word_left(),
            KeyCode::Right if control || alt => self.cursor = self.word_right(),
            KeyCode::Char('b') if control => self.cursor = self.left(),
            KeyCode::Char('f') if control => self.cursor = self.right(),
            KeyCode::Left => self.cursor = self.left(),
            KeyCode::Right => self.cursor = self.right(),
            // Terminals send the same byte for Ctrl+_ and Ctrl+/; it is reported as Ctrl+7.
            KeyCode::Char('_' | '7' | '/') if control => self.undo(),
            KeyCode::Char(c) if !control && !alt && !c.is_control() => {
                if is_paste(c) {
                    return true;
                }
                // Continuous typing is undone word by word.
                if !typing || c.is_whitespace() {
                    self.save_undo_state();
                }
                self.add(c.encode_utf8(&mut [0; 4]));
                self.typing = true;
            }
            _ => return self.changes(key, (control, alt), killing),
        }
        true
    }

    /// Handles keys that kill text.
    fn changes(&mut self, key: KeyEvent, (control, alt): (bool, bool), killing: bool) -> bool {
        let here = self.cursor;
        let (from, to) = match key.code {
            KeyCode::Char('w') if control => (self.blank_left(), here),
            KeyCode::Backspace if alt => (self.word_left(), here),
            KeyCode::Char('d') if alt => (here, self.word_right()),
            KeyCode::Char('u') if control => (self.line_start(), here),
            KeyCode::Char('k') if control => {
                let end = self.line_end();
                // At the end of a line, joins the next line.
                (here, if end == here { self.right() } else { end })
            }
            _ => return self.changes_letters(key, (control, alt)),
        };
        self.save_undo_state();
        self.kill(from, to, killing);
        true
    }

    fn changes_letters(&mut self, key: KeyEvent, (control, alt): (bool, bool)) -> bool {
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Char('j') if control => self.insert("\n"),
            KeyCode::Enter if alt || shift => self.insert("\n"),
            KeyCode::Char('y') if control => {
                self.save_undo_state();
                self.put();
            }
            KeyCode::Backspace | KeyCode::Char('h') if key.code == KeyCode::Backspace || control => {
                self.save_undo_state();
                self.remove(self.left(), self.cursor);
            }
            KeyCode::Char('d') if control => self.delete(),
            KeyCode::Delete => self.delete(),
            KeyCode::Char('t') if control => self.transpose(),
            KeyCode::Char('u') if alt => self.change_case(Case::Upper),
            KeyCode::Char('l') if alt => self.change_case(Case::Lower),
            KeyCode::Char('c') if alt => self.change_case(Case::Capital),
            _ => return false,
        }
        true
    }

    fn delete(&mut self) {
        self.save_undo_state();
        self.remove(self.cursor, self.right());
    }

    /// Moves the grapheme before the cursor past the one at it. At the end of a line, swaps the last two.
    fn transpose(&mut self) {
        let at = if self.cursor == self.line_end() { self.left() } else { self.cursor };
        let line = self.text.get(self.line_start()..at).unwrap_or_default();
        let Some(before) = line.graphemes(true).next_back().map(str::len) else { return };
        let end = self.after_letter(at);
        self.save_undo_state();
        let second = self.remove(at, end);
        self.cursor = at - before;
        self.add(&second);
        self.cursor = end;
    }

    fn change_case(&mut self, case: Case) {
        let end = self.word_right();
        self.save_undo_state();
        let word = self.remove(self.cursor, end);
        let (mut changed, mut is_first) = (String::with_capacity(word.len()), true);
        for c in word.chars() {
            let upper = match case {
                Case::Upper => true,
                Case::Lower => false,
                Case::Capital => is_first,
            };
            is_first &= !c.is_alphanumeric();
            if upper { changed.extend(c.to_uppercase()) } else { changed.extend(c.to_lowercase()) }
        }
        self.add(&changed);
    }
}
