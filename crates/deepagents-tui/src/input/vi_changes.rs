//! The operators of vi.

use super::Editor;
use super::vi::{Change, MAX_COUNT, Pending, Vi, ViMode, to_letter};
use super::vi_places::{Span, line_at, lines, motion, words_to};

impl Vi {
    pub(super) fn operate(&mut self, (operator, before): Change, c: char, editor: &mut Editor) {
        let counted = self.count.is_some() || before > 1;
        let times = self.times().saturating_mul(before).min(MAX_COUNT);
        let here = editor.cursor;
        let line_below = |editor: &Editor, lines: usize| {
            let rest = editor.text().get(here..).unwrap_or_default();
            rest.match_indices('\n').nth(lines.saturating_sub(1)).map_or(editor.text().len(), |(at, _)| here + at + 1)
        };
        let span = match c {
            _ if c == operator => {
                let last = if times > 1 { line_below(editor, times - 1) } else { here };
                Some(lines(editor, here, last))
            }
            // Without a line below or above, the operator does nothing.
            'j' if editor.line_end() == editor.text().len() => None,
            'k' if editor.line_start() == 0 => None,
            'j' => Some(lines(editor, here, line_below(editor, times))),
            'k' => {
                let before = editor.before();
                let start = before.rmatch_indices('\n').nth(times.saturating_sub(1)).map_or(0, |(at, _)| at);
                Some(lines(editor, start, here))
            }
            'G' => {
                let to = if counted { line_at(editor, times) } else { editor.text().len() };
                Some(lines(editor, here.min(to), here.max(to)))
            }
            ';' | ',' => self.search_again(c, times, editor).map(|to| Span::to_found(here, to, editor)),
            // `cw` leaves the white space after the word.
            'w' if operator == 'c' => motion('e', times, editor).map(|to| Span::to_found(here, to, editor)),
            'e' => motion('e', times, editor).map(|to| Span::to_found(here, to, editor)),
            // `cW` leaves the white space after the word too.
            'W' if operator == 'c' => words_to(c, times, editor).map(|to| {
                let word = editor.text().get(here..to).unwrap_or_default().trim_end();
                Span::letters(here, if word.is_empty() { to } else { here + word.len() })
            }),
            // Cutting the last word of a line leaves the line break.
            'w' | 'W' => words_to(c, times, editor).map(|to| Span::letters(here, to)),
            _ => motion(c, times, editor).map(|to| Span::letters(here.min(to), here.max(to))),
        };
        if span.is_none() && matches!(c, 'r' | 'm' | '\'' | '`' | '"' | 'q' | '@' | 'z' | 'Z') {
            self.pending = Some(Pending::Unknown);
        }
        self.done_to(operator, span, editor);
    }

    /// Applies an operator to a span.
    pub(super) fn done_to(&mut self, operator: char, span: Option<Span>, editor: &mut Editor) {
        let Some(Span { from, to, lines }) = span else { return };
        let text = editor.text().get(from..to).unwrap_or_default().to_owned();
        // Cutting nothing leaves the kill buffer unchanged.
        if lines || !text.is_empty() {
            self.whole_lines = lines.then(|| text.clone());
            editor.killed = text;
        }
        match operator {
            'y' => {
                if !lines {
                    editor.cursor_to(from);
                }
            }
            'c' => {
                editor.begin_change();
                editor.remove(from, to);
                editor.cursor_to(from);
                self.mode = ViMode::Insert;
            }
            _ => {
                editor.save_undo_state();
                let (mut from, mut to) = (from, to);
                // Whole lines are removed with a line break: their own, or the one before them.
                if lines && to < editor.text().len() {
                    to += 1;
                } else if lines {
                    from = from.saturating_sub(1);
                }
                editor.remove(from, to);
                if lines {
                    to_letter(editor);
                }
            }
        }
    }

    /// Inserts the last cut or copied text after or before the cursor; whole lines go below or above.
    pub(super) fn put(&mut self, behind: bool, times: usize, editor: &mut Editor) {
        if editor.killed.is_empty() && self.whole_lines.is_none() {
            return;
        }
        editor.save_undo_state();
        if self.whole_lines.as_deref() == Some(editor.killed.as_str()) {
            let at = if behind { editor.line_end() } else { editor.line_start() };
            for _ in 0..times {
                editor.cursor_to(at);
                if behind {
                    editor.add("\n");
                }
                editor.put();
                if !behind {
                    editor.add("\n");
                }
            }
            editor.cursor_to(if behind { at + 1 } else { at });
            to_letter(editor);
            return;
        }
        if behind && editor.cursor != editor.line_end() {
            editor.cursor_to(editor.right());
        }
        let at = editor.cursor;
        (0..times).for_each(|_| editor.put());
        if editor.cursor > at {
            editor.cursor_to(editor.left());
        }
    }
}

/// Joins the next `times` lines to the current one.
pub(super) fn join_lines(times: usize, editor: &mut Editor) {
    editor.save_undo_state();
    for _ in 0..times {
        let end = editor.line_end();
        if end == editor.text().len() {
            break;
        }
        let below = editor.text().get(end + 1..).unwrap_or_default();
        let blanks = below.len() - below.trim_start_matches([' ', '\t']).len();
        editor.remove(end, end + 1 + blanks);
        let (line, next) = (editor.before().lines().next_back().unwrap_or_default(), editor.after().chars().next());
        let is_apart = editor.at_line_start() || line.ends_with([' ', '\t']) || matches!(next, None | Some('\n' | ')'));
        if !is_apart {
            editor.add(" ");
        }
        editor.cursor_to(end);
    }
}

/// Replaces characters of the line. The cursor ends up after them.
pub(super) fn change_letters(times: usize, editor: &mut Editor, change: impl Fn(&str) -> String) {
    editor.save_undo_state();
    for _ in 0..times {
        let here = editor.cursor;
        if here == editor.line_end() {
            break;
        }
        let letter = editor.remove(here, editor.right());
        editor.add(&change(&letter));
    }
}
