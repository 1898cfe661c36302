//! Finds a text whose white space differs from that of the file.

use super::{LooseMatch, line_number};

/// Maximum number of places that an error shows.
const MAX_SHOWN: usize = 3;

/// Maximum number of characters that an error shows of all places together.
const MAX_SHOWN_CHARS: usize = 2000;

/// Returns the first places of a text that differ from `old` only in white space, and how many there are. Takes time in
/// proportion to both texts.
pub(super) fn loose_matches(text: &str, old: &str) -> (Vec<LooseMatch>, usize) {
    let wanted = normalized(old);
    if wanted.is_empty() {
        return (Vec::new(), 0);
    }
    let mut starts = Vec::new();
    let mut count = 0;
    for at in memchr::memmem::find_iter(normalized(text).as_bytes(), &wanted) {
        count += 1;
        if starts.len() < MAX_SHOWN {
            starts.push(at);
        }
    }
    let spans = original_spans(text, &starts, wanted.len());
    let room = MAX_SHOWN_CHARS / spans.len().max(1);
    (spans.into_iter().map(|span| shown(text, span, room)).collect(), count)
}

/// Calls a function with each character of the normalised text and the offset of the original character. White space is
/// left out, except that one space separates two words.
fn for_each_normalized(text: &str, mut each: impl FnMut(char, usize)) {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut space, mut after_word) = (None, false);
    for (at, c) in text.char_indices() {
        if c.is_whitespace() {
            space.get_or_insert(at);
            continue;
        }
        if let Some(space) = space.take().filter(|_| after_word && is_word(c)) {
            each(' ', space);
        }
        each(c, at);
        after_word = is_word(c);
    }
}

fn normalized(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for_each_normalized(text, |c, _| out.push(c));
    out
}

/// Returns where texts of the same length that start at these offsets of the normalised text are in the original.
fn original_spans(text: &str, starts: &[usize], len: usize) -> Vec<(usize, usize)> {
    let mut spans = Vec::with_capacity(starts.len());
    let (mut position, mut start) = (0, 0);
    for_each_normalized(text, |c, at| {
        // Matches do not overlap, so the next one to end is also the last one that began.
        let Some(next) = starts.get(spans.len()) else { return };
        if position == *next {
            start = at;
        }
        position += c.len_utf8();
        if position == next + len {
            spans.push((start, at + c.len_utf8()));
        }
    });
    spans
}

/// Returns the lines of a place, or only the place itself if its lines are too long to be shown.
fn shown(text: &str, (start, end): (usize, usize), room: usize) -> LooseMatch {
    let before = text.get(..start).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line_end = text.get(end..).and_then(|rest| rest.find('\n')).map_or(text.len(), |at| end + at);
    let lines = text.get(line_start..line_end).unwrap_or_default();
    let fits = |text: &str| text.chars().nth(room).is_none();
    let exact = if fits(lines) { lines } else { text.get(start..end).unwrap_or_default() };
    LooseMatch {
        first: line_number(text, start),
        last: line_number(text, end),
        text: exact.chars().take(room).collect(),
        is_cut: !fits(exact),
    }
}
