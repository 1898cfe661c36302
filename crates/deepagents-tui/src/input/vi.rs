//! The keys of vi.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::Editor;

/// What keys do to the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ViMode {
    /// Letters are inserted.
    #[default]
    Insert,
    /// They move and change.
    Normal,
}

/// Where somebody is who edits as in vi.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vi {
    pub(crate) mode: ViMode,
    /// An operator that waits for a motion.
    operator: Option<char>,
    /// What the text was before each change, the last one last.
    undo: Vec<String>,
}

/// Changes that can be taken back.
const CHANGES: usize = 100;

impl Vi {
    /// Takes a key; says whether it was one of vi's. In insert mode only Esc is.
    pub(crate) fn key(&mut self, key: KeyEvent, editor: &mut Editor) -> bool {
        let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        if self.mode == ViMode::Insert {
            let leaves = key.code == KeyCode::Esc && plain;
            if leaves {
                self.mode = ViMode::Normal;
                if !editor.at_line_start() {
                    editor.cursor_to(editor.left());
                }
            }
            return leaves;
        }
        let KeyCode::Char(c) = key.code else { return false };
        if !plain {
            return false;
        }
        match self.operator.take() {
            Some(operator) => self.operate(operator, c, editor),
            None => self.command(c, editor),
        }
        // The cursor stands on a letter, and not behind the last one.
        if self.mode == ViMode::Normal && editor.cursor() == editor.line_end() && !editor.at_line_start() {
            editor.cursor_to(editor.left());
        }
        true
    }

    /// The message was sent: the next one begins with inserting.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    fn keep(&mut self, editor: &Editor) {
        self.undo.push(editor.text().to_owned());
        if self.undo.len() > CHANGES {
            self.undo.remove(0);
        }
    }

    fn insert(&mut self, editor: &mut Editor, at: usize) {
        self.keep(editor);
        editor.cursor_to(at);
        self.mode = ViMode::Insert;
    }

    fn command(&mut self, c: char, editor: &mut Editor) {
        if let Some(to) = motion(c, editor) {
            editor.cursor_to(to);
            return;
        }
        match c {
            'i' => self.insert(editor, editor.cursor()),
            'I' => self.insert(editor, editor.line_start()),
            'a' => self.insert(editor, editor.right()),
            'A' => self.insert(editor, editor.line_end()),
            'o' | 'O' => {
                self.insert(editor, if c == 'o' { editor.line_end() } else { editor.line_start() });
                let at = editor.cursor();
                editor.insert("\n");
                if c == 'O' {
                    editor.cursor_to(at);
                }
            }
            'x' => self.cut(editor, editor.cursor(), editor.right()),
            'X' => self.cut(editor, editor.left(), editor.cursor()),
            'D' => self.cut(editor, editor.cursor(), editor.line_end()),
            'C' => {
                self.cut(editor, editor.cursor(), editor.line_end());
                self.mode = ViMode::Insert;
            }
            'p' | 'P' => {
                self.keep(editor);
                if c == 'p' {
                    editor.cursor_to(editor.right());
                }
                editor.put();
            }
            'u' => {
                if let Some(text) = self.undo.pop() {
                    editor.set(text);
                }
            }
            'd' | 'c' | 'y' => self.operator = Some(c),
            _ => {}
        }
    }

    fn cut(&mut self, editor: &mut Editor, from: usize, to: usize) {
        self.keep(editor);
        editor.kill(from, to);
    }

    fn operate(&mut self, operator: char, c: char, editor: &mut Editor) {
        let (from, to) = if c == operator {
            let end = editor.line_end();
            // Whole lines go with their end.
            (editor.line_start(), if operator == 'd' { (end + 1).min(editor.text().len()) } else { end })
        } else {
            let here = editor.cursor();
            // `cw` leaves the blanks behind the word.
            let Some(there) = motion(if operator == 'c' && c == 'w' { 'e' } else { c }, editor) else { return };
            let there = if c == 'e' || (operator == 'c' && c == 'w') { editor.after_letter(there) } else { there };
            (here.min(there), here.max(there))
        };
        if operator == 'y' {
            editor.yank(from, to);
            return;
        }
        self.cut(editor, from, to);
        if operator == 'c' {
            self.mode = ViMode::Insert;
        }
    }
}

/// Where a motion leads; nothing for what is none.
fn motion(c: char, editor: &Editor) -> Option<usize> {
    Some(match c {
        'h' if editor.at_line_start() => editor.cursor(),
        'h' => editor.left(),
        'l' if editor.cursor() == editor.line_end() => editor.cursor(),
        'l' | ' ' => editor.right(),
        'w' => editor.next_word(),
        'b' => editor.word_left(),
        'e' => editor.word_end(),
        '0' | '^' => editor.line_start(),
        '$' => editor.line_end(),
        'G' => editor.text().len(),
        _ => return None,
    })
}
