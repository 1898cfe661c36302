//! The vi key bindings.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::Editor;
use super::vi_changes::{change_letters, join_lines};
use super::vi_places::{Span, find, line_at, lines, motion, object};

/// The vi mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ViMode {
    /// Keys insert text.
    #[default]
    Insert,
    /// Keys are commands.
    Normal,
}

/// The result of a key press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyResult {
    Nothing,
    Key,
    /// There is no line above, or below: the caller recalls an earlier, or a later, message.
    Older,
    Newer,
}

/// An operator that waits for its motion, and its count.
pub(super) type Change = (char, usize);

/// What the next character belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending {
    Change(Change),
    /// A command that takes a character, and the operator before it.
    Letter(char, Option<Change>),
    /// An unsupported command, whose character is ignored.
    Unknown,
}

/// The state of vi editing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vi {
    pub(crate) mode: ViMode,
    pub(super) pending: Option<Pending>,
    pub(super) count: Option<usize>,
    /// The last search in a line: its command and character.
    searched: Option<(char, char)>,
    /// An insertion to repeat.
    repeated: Option<Repeated>,
    /// The last text cut or copied, if it was whole lines.
    pub(super) whole_lines: Option<String>,
}

/// An insertion with a count.
#[derive(Clone, Copy, Debug)]
struct Repeated {
    /// Its start, and the length of the text at that time.
    from: usize,
    length: usize,
    times: usize,
    /// Whether each repetition gets its own line.
    lines: bool,
}

/// Maximum count of a command.
pub(super) const MAX_COUNT: usize = 1_000;

impl Vi {
    /// Handles a key. In insert mode, only Esc has a vi meaning.
    pub(crate) fn key(&mut self, key: KeyEvent, editor: &mut Editor) -> KeyResult {
        let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        if self.mode == ViMode::Insert {
            if key.code != KeyCode::Esc || !plain {
                // An insertion is undone as one change.
                editor.begin_change();
                return KeyResult::Nothing;
            }
            self.mode = ViMode::Normal;
            self.repeat(editor);
            editor.end_change();
            if !editor.at_line_start() {
                editor.cursor_to(editor.left());
            }
            return KeyResult::Key;
        }
        let took = match key.code {
            KeyCode::Char('r') if key.modifiers == KeyModifiers::CONTROL => {
                self.pending = None;
                (0..self.times()).for_each(|_| editor.redo());
                KeyResult::Key
            }
            KeyCode::Char(c) if plain => self.letter(c, editor),
            _ => {
                let waited = self.pending.take().is_some() | self.count.take().is_some();
                if waited && key.code == KeyCode::Esc { KeyResult::Key } else { KeyResult::Nothing }
            }
        };
        // In normal mode, the cursor is on a character, not after the last one.
        if self.mode == ViMode::Normal && editor.cursor == editor.line_end() && !editor.at_line_start() {
            editor.cursor_to(editor.left());
        }
        took
    }

    /// Returns to insert mode after a message was sent.
    pub(crate) fn reset(&mut self) {
        (self.mode, self.pending, self.count) = (ViMode::Insert, None, None);
        self.repeated = None;
    }

    /// Repeats the insertion according to its count.
    fn repeat(&mut self, editor: &mut Editor) {
        let Some(Repeated { from, length, times, lines }) = self.repeated.take() else { return };
        let mut inserted = editor.text().get(from..editor.cursor).unwrap_or_default().to_owned();
        // Editing or moving in the meantime makes it more than a plain insertion.
        if length + inserted.len() == editor.text().len() {
            if lines {
                inserted.insert(0, '\n');
            }
            (1..times).for_each(|_| editor.add(&inserted));
        }
    }

    pub(super) fn times(&mut self) -> usize {
        self.count.take().unwrap_or(1)
    }

    fn letter(&mut self, c: char, editor: &mut Editor) -> KeyResult {
        let pending = self.pending.take();
        let is_digit = !matches!(pending, Some(Pending::Letter(..) | Pending::Unknown))
            && (('1'..='9').contains(&c) || (c == '0' && self.count.is_some()));
        if let Some(digit) = c.to_digit(10).filter(|_| is_digit) {
            let digit = usize::try_from(digit).unwrap_or(0);
            self.count = Some((self.count.unwrap_or(0) * 10 + digit).min(MAX_COUNT));
            self.pending = pending;
            return KeyResult::Key;
        }
        match pending {
            Some(Pending::Unknown) => {}
            Some(Pending::Letter(command, operator)) => self.with_letter(command, c, operator, editor),
            Some(Pending::Change(operator)) if matches!(c, 'f' | 'F' | 't' | 'T' | 'g' | 'i' | 'a') => {
                self.pending = Some(Pending::Letter(c, Some(operator)));
            }
            Some(Pending::Change(operator)) => self.operate(operator, c, editor),
            None => return self.command(c, editor),
        }
        KeyResult::Key
    }

    fn command(&mut self, c: char, editor: &mut Editor) -> KeyResult {
        let counted = self.count.is_some();
        match c {
            'd' | 'c' | 'y' => {
                self.pending = Some(Pending::Change((c, self.times())));
                return KeyResult::Key;
            }
            'f' | 'F' | 't' | 'T' | 'g' | 'r' => {
                self.pending = Some(Pending::Letter(c, None));
                return KeyResult::Key;
            }
            'm' | '\'' | '`' | '"' | 'q' | '@' | 'z' | 'Z' | '[' | ']' | '<' | '>' | '=' | '!' => {
                (self.pending, self.count) = (Some(Pending::Unknown), None);
                return KeyResult::Key;
            }
            _ => {}
        }
        let times = self.times();
        let (here, end) = (editor.cursor, editor.line_end());
        match c {
            'j' | 'k' => {
                let mut step = || if c == 'j' { editor.down() } else { editor.up() };
                // With fewer lines than the count, the cursor moves to the last one.
                let moved = (0..times).take_while(|_| step()).count();
                if moved == 0 {
                    return if c == 'j' { KeyResult::Newer } else { KeyResult::Older };
                }
            }
            'G' => to_line(editor, if counted { times } else { usize::MAX }),
            'i' => self.insert(editor, here),
            'I' => self.insert(editor, editor.line_start()),
            'a' => self.insert(editor, if here == end { here } else { editor.right() }),
            'A' => self.insert(editor, end),
            'o' | 'O' => {
                self.insert(editor, if c == 'o' { end } else { editor.line_start() });
                let at = editor.cursor;
                editor.add("\n");
                if c == 'O' {
                    editor.cursor_to(at);
                }
            }
            'x' => self.done_to('d', motion('l', times, editor).map(|to| Span::letters(here, to)), editor),
            'X' => self.done_to('d', motion('h', times, editor).map(|to| Span::letters(to, here)), editor),
            's' => self.done_to('c', motion('l', times, editor).map(|to| Span::letters(here, to)), editor),
            'D' | 'C' => {
                let to = motion('$', times, editor).unwrap_or(end);
                self.done_to(c.to_ascii_lowercase(), Some(Span::letters(here, to)), editor);
            }
            'S' => self.operate(('c', times), 'c', editor),
            'Y' => self.operate(('y', times), 'y', editor),
            'p' | 'P' => self.put(c == 'p', times, editor),
            '~' => change_letters(times, editor, |letter| {
                let first = letter.chars().next();
                let is_upper = first.is_some_and(char::is_uppercase);
                if is_upper { letter.to_lowercase() } else { letter.to_uppercase() }
            }),
            'J' => join_lines(times.max(2) - 1, editor),
            'u' => (0..times).for_each(|_| editor.undo()),
            ';' | ',' => {
                if let Some(to) = self.search_again(c, times, editor) {
                    editor.cursor_to(to);
                }
            }
            _ => {
                if let Some(to) = motion(c, times, editor) {
                    editor.cursor_to(to);
                }
            }
        }
        if matches!(c, 'i' | 'I' | 'a' | 'A' | 'o' | 'O') && times > 1 {
            let (from, length) = (editor.cursor, editor.text().len());
            self.repeated = Some(Repeated { from, length, times, lines: matches!(c, 'o' | 'O') });
        }
        KeyResult::Key
    }

    fn insert(&mut self, editor: &mut Editor, at: usize) {
        editor.begin_change();
        editor.cursor_to(at);
        self.mode = ViMode::Insert;
    }

    /// Executes a command with its character.
    fn with_letter(&mut self, command: char, c: char, operator: Option<Change>, editor: &mut Editor) {
        let counted = self.count.is_some() || operator.is_some_and(|(_, before)| before > 1);
        let times = self.times().saturating_mul(operator.map_or(1, |(_, times)| times)).min(MAX_COUNT);
        let here = editor.cursor;
        let span = match command {
            'r' => {
                let fits = editor.text().get(here..editor.line_end()).unwrap_or_default().chars().count() >= times;
                if fits && !c.is_control() {
                    change_letters(times, editor, |_| c.to_string());
                    editor.cursor_to(editor.left());
                }
                return;
            }
            'g' if c == 'g' => {
                let number = if counted { times } else { 1 };
                if operator.is_none() {
                    to_line(editor, number);
                    return;
                }
                let to = line_at(editor, number);
                Some(lines(editor, here.min(to), here.max(to)))
            }
            'g' => None,
            'i' | 'a' => object(command == 'a', c, times, editor),
            how => {
                self.searched = Some((how, c));
                let found = find(editor, how, c, times);
                if let (None, Some(to)) = (operator, found) {
                    editor.cursor_to(to);
                    return;
                }
                found.map(|to| Span::to_found(here, to, editor))
            }
        };
        if let Some((operator, _)) = operator {
            self.done_to(operator, span, editor);
        }
    }

    /// Repeats the last search in a line, in the same or the opposite direction.
    pub(super) fn search_again(&self, c: char, times: usize, editor: &Editor) -> Option<usize> {
        let (how, letter) = self.searched?;
        let other = if how.is_lowercase() { how.to_ascii_uppercase() } else { how.to_ascii_lowercase() };
        find(editor, if c == ';' { how } else { other }, letter, times)
    }
}

/// Moves to the first non-blank character of the line with this number, or of the last line.
fn to_line(editor: &mut Editor, number: usize) {
    editor.cursor_to(line_at(editor, number));
    to_letter(editor);
}

/// Moves to the first non-blank character of the line.
pub(super) fn to_letter(editor: &mut Editor) {
    if let Some(to) = motion('^', 1, editor) {
        editor.cursor_to(to);
    }
}
