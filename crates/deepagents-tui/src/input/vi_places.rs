//! The motions and text objects of vi.

use unicode_segmentation::UnicodeSegmentation;

use super::Editor;
use super::pastes::is_letter;

/// A span of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Whether it is whole lines, without the last line break.
    pub(super) lines: bool,
}

impl Span {
    pub(super) fn letters(from: usize, to: usize) -> Self {
        Self { from, to, lines: false }
    }

    /// Returns the span from the cursor to a character. The character is included if it is ahead.
    pub(super) fn to_found(here: usize, to: usize, editor: &Editor) -> Self {
        if to < here { Self::letters(to, here) } else { Self::letters(here, editor.after_letter(to)) }
    }
}

/// Returns the whole lines between two positions.
pub(super) fn lines(editor: &Editor, from: usize, to: usize) -> Span {
    let text = editor.text();
    let from = text.get(..from).unwrap_or_default().rfind('\n').map_or(0, |at| at + 1);
    let to = text.get(to..).unwrap_or_default().find('\n').map_or(text.len(), |at| to + at);
    Span { from, to, lines: true }
}

/// Returns the start of the line with this number, or of the last line.
pub(super) fn line_at(editor: &Editor, number: usize) -> usize {
    let starts = std::iter::once(0).chain(editor.text().match_indices('\n').map(|(at, _)| at + 1));
    starts.take(number.max(1)).last().unwrap_or(0)
}

/// Returns the target of a motion with a count, or `None` if the character is not a motion.
pub(super) fn motion(c: char, times: usize, editor: &mut Editor) -> Option<usize> {
    let here = editor.cursor;
    if c == '$' {
        // With a count, the end of a line below, or of the last one.
        let ends = editor.text().get(here..)?.match_indices('\n').map(|(at, _)| here + at);
        return Some(ends.chain([editor.text().len()]).take(times.max(1)).last().unwrap_or(here));
    }
    let mut to = Some(here);
    for _ in 0..times {
        to = step(c, editor);
        match to {
            Some(to) if to != editor.cursor => editor.cursor_to(to),
            _ => break,
        }
    }
    editor.cursor_to(here);
    to
}

fn step(c: char, editor: &Editor) -> Option<usize> {
    Some(match c {
        'h' if editor.at_line_start() => editor.cursor,
        'h' => editor.left(),
        'l' | ' ' if editor.cursor == editor.line_end() => editor.cursor,
        'l' | ' ' => editor.right(),
        'w' => next_word(editor),
        'b' => word_start(editor),
        'e' => word_end(editor),
        'W' => {
            let rest = editor.after().trim_start_matches(|c: char| !c.is_whitespace());
            over_blanks(editor, editor.text().len() - rest.len())
        }
        'B' => {
            let to = back_over_blanks(editor);
            let before = editor.text().get(..to).unwrap_or_default();
            if is_empty_line(editor, to) { to } else { before.trim_end_matches(|c: char| !c.is_whitespace()).len() }
        }
        '0' => editor.line_start(),
        '^' => {
            let line = editor.text().get(editor.line_start()..editor.line_end()).unwrap_or_default();
            editor.line_start() + line.len() - line.trim_start().len()
        }
        _ => return None,
    })
}

/// Returns the end of the words to cut or copy. The last one excludes its line break.
pub(super) fn words_to(c: char, times: usize, editor: &mut Editor) -> Option<usize> {
    let here = editor.cursor;
    let last = motion(c, times.saturating_sub(1), editor)?;
    editor.cursor_to(last);
    let (end, to) = (editor.line_end(), motion(c, 1, editor));
    editor.cursor_to(here);
    to.map(|to| if last < end { to.min(end) } else { to })
}

/// Returns whether a character is neither white space nor part of a word.
fn is_mark(c: char) -> bool {
    !is_letter(c) && !c.is_whitespace()
}

/// Returns the start of the next word.
fn next_word(editor: &Editor) -> usize {
    let after = editor.after();
    let rest = after.trim_start_matches(is_letter);
    let rest = if rest.len() == after.len() { after.trim_start_matches(is_mark) } else { rest };
    over_blanks(editor, editor.text().len() - rest.len())
}

/// Whether a position is on an empty line, which counts as a word.
fn is_empty_line(editor: &Editor, at: usize) -> bool {
    let (before, after) = editor.text().split_at_checked(at).unwrap_or_default();
    (before.is_empty() || before.ends_with('\n')) && (after.is_empty() || after.starts_with('\n'))
}

/// Returns the end of the white space from a position on, or the first empty line in it after the cursor.
fn over_blanks(editor: &Editor, from: usize) -> usize {
    let rest = editor.text().get(from..).unwrap_or_default();
    let is_end = |(at, c): &(usize, char)| {
        let at = from + at;
        !c.is_whitespace() || (at > editor.cursor && is_empty_line(editor, at))
    };
    rest.char_indices().find(is_end).map_or(editor.text().len(), |(at, _)| from + at)
}

/// Returns the start of the white space before the cursor, or the last empty line in it.
fn back_over_blanks(editor: &Editor) -> usize {
    let before = editor.before();
    let blanks = before.char_indices().rev().take_while(|(_, c)| c.is_whitespace());
    let mut begins = before.trim_end().len();
    for (at, _) in blanks {
        if is_empty_line(editor, at) {
            begins = at;
            break;
        }
    }
    begins
}

/// Returns the start of the current word, or of the previous one.
fn word_start(editor: &Editor) -> usize {
    let to = back_over_blanks(editor);
    if is_empty_line(editor, to) {
        return to;
    }
    let before = editor.text().get(..to).unwrap_or_default();
    let word = before.trim_end_matches(is_letter);
    if word.len() < before.len() { word.len() } else { before.trim_end_matches(is_mark).len() }
}

/// Returns the last character of the current word, or of the next one if the cursor is at an end.
fn word_end(editor: &Editor) -> usize {
    let start = editor.right();
    let after = editor.text().get(start..).unwrap_or_default();
    let word = after.trim_start();
    let blanks = after.len() - word.len();
    let letters = word.len() - word.trim_start_matches(is_letter).len();
    let length = if letters > 0 { letters } else { word.len() - word.trim_start_matches(is_mark).len() };
    let end = word.get(..length).unwrap_or_default();
    let last = end.graphemes(true).next_back().map_or(0, str::len);
    start + blanks + length - last
}

/// Finds a character in the line, ahead of or behind the cursor. The commands `t` and `T` stop next to it.
pub(super) fn find(editor: &Editor, how: char, letter: char, times: usize) -> Option<usize> {
    let here = editor.cursor;
    let nth = times.saturating_sub(1);
    if how.is_lowercase() {
        let start = editor.right();
        let line = editor.text().get(start..editor.line_end())?;
        let at = start + line.match_indices(letter).nth(nth)?.0;
        if how == 'f' {
            return Some(at);
        }
        let between = editor.text().get(here..at)?;
        return Some(at - between.graphemes(true).next_back().map_or(0, str::len));
    }
    let start = editor.line_start();
    let at = start + editor.text().get(start..here)?.rmatch_indices(letter).nth(nth)?.0;
    Some(if how == 'F' { at } else { at + letter.len_utf8() })
}

/// Returns the text object that a character names, with or without what surrounds it. The count applies to words.
pub(super) fn object(whole: bool, c: char, times: usize, editor: &mut Editor) -> Option<Span> {
    match c {
        'w' => words(whole, times, editor),
        '"' | '\'' | '`' => quoted(whole, c, editor),
        '(' | ')' | 'b' => bracketed(whole, ('(', ')'), editor),
        '{' | '}' | 'B' => bracketed(whole, ('{', '}'), editor),
        '[' | ']' => bracketed(whole, ('[', ']'), editor),
        '<' | '>' => bracketed(whole, ('<', '>'), editor),
        _ => None,
    }
}

/// Returns `times` words. Without what surrounds them, white space counts as a word.
fn words(whole: bool, times: usize, editor: &mut Editor) -> Option<Span> {
    let here = editor.cursor;
    let mut all = word(whole, editor)?;
    for _ in 1..times {
        editor.cursor_to(all.to);
        // The line has no more words.
        let Some(next) = word(whole, editor).filter(|next| next.to > all.to) else { break };
        // If no white space follows the last word, the white space before the first is included.
        if next.from < all.to {
            editor.cursor_to(all.from);
            let line = editor.text().get(editor.line_start()..all.from)?;
            all.from -= line.len() - line.trim_end().len();
        }
        all.to = next.to;
    }
    editor.cursor_to(here);
    Some(all)
}

fn word(whole: bool, editor: &Editor) -> Option<Span> {
    let here = editor.cursor;
    let line = editor.text().get(editor.line_start()..editor.line_end())?;
    let at = here - editor.line_start();
    let kind = |c: char| (c.is_whitespace(), is_letter(c));
    let first = line.get(at..)?.chars().next()?;
    let same = |c: char| kind(c) == kind(first);
    let (before, after) = (line.get(..at)?, line.get(at..)?);
    let mut from = before.trim_end_matches(same).len();
    let mut rest = after.trim_start_matches(same);
    if whole {
        let blanks = rest.trim_start();
        // If no white space follows the word, the white space before it is included.
        if blanks.len() == rest.len() {
            from = line.get(..from)?.trim_end().len();
        }
        rest = blanks;
    }
    let start = editor.line_start();
    Some(Span::letters(start + from, start + line.len() - rest.len()))
}

fn quoted(whole: bool, quote: char, editor: &Editor) -> Option<Span> {
    let (start, here) = (editor.line_start(), editor.cursor);
    let line = editor.text().get(start..editor.line_end())?;
    let mut quotes = line.match_indices(quote).map(|(at, _)| start + at);
    while let (Some(from), Some(to)) = (quotes.next(), quotes.next()) {
        if here <= to {
            return Some(if whole { Span::letters(from, to + 1) } else { Span::letters(from + 1, to) });
        }
    }
    None
}

fn bracketed(whole: bool, (open, close): (char, char), editor: &Editor) -> Option<Span> {
    let (text, here) = (editor.text(), editor.cursor);
    let at_cursor = text.get(here..)?.chars().next();
    let mut depth = 0_usize;
    let from = if at_cursor == Some(open) {
        here
    } else {
        text.get(..here)?.char_indices().rev().find_map(|(at, c)| {
            if c == close {
                depth += 1;
            } else if c == open {
                if depth == 0 {
                    return Some(at);
                }
                depth -= 1;
            }
            None
        })?
    };
    depth = 0;
    let to = text.get(from..)?.char_indices().find_map(|(at, c)| {
        if c == open {
            depth += 1;
        } else if c == close {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return Some(from + at);
            }
        }
        None
    })?;
    Some(if whole { Span::letters(from, to + 1) } else { Span::letters(from + 1, to) })
}
