//! Brace expansion in globs: `{a,b}` and `{1..3}`.
//!
//! The text is parsed once into a tree, and sizes are computed before anything is expanded, so that a short pattern
//! cannot cost much.

use std::ops::RangeInclusive;

/// Maximum number of patterns that one expands to.
const MAX_PATTERNS: usize = 1000;
/// Maximum number of bytes of all patterns that one expands to.
const MAX_PATTERN_BYTES: usize = 256 << 10;
/// Maximum nesting depth of groups.
const MAX_DEPTH: usize = 32;

/// Part of a pattern.
enum Part<'a> {
    Text(&'a str),
    Choice(Vec<Vec<Part<'a>>>),
    /// The values of a range.
    Range(Vec<String>),
}

/// Expands the braces of a pattern; `None` if the result would be too large. Braces without a comma or range stay as
/// they are.
pub(super) fn expand(pattern: &str) -> Option<Vec<String>> {
    let parts = Reader::new(pattern).parts(0, pattern.len(), 0)?;
    let mut bytes = 0;
    expand_parts(&parts, &mut bytes)
}

/// Expands a sequence of parts. `bytes` counts all the text written so far.
fn expand_parts(parts: &[Part<'_>], bytes: &mut usize) -> Option<Vec<String>> {
    let mut out = vec![String::new()];
    for part in parts {
        let choices = match part {
            Part::Text(text) => vec![(*text).to_owned()],
            Part::Range(texts) => texts.clone(),
            Part::Choice(choices) => {
                let mut all = Vec::new();
                for choice in choices {
                    all.extend(expand_parts(choice, bytes)?);
                    if all.len() > MAX_PATTERNS {
                        return None;
                    }
                }
                all
            }
        };
        if out.len().saturating_mul(choices.len()) > MAX_PATTERNS {
            return None;
        }
        let joined = |before: &String| choices.iter().map(|choice| before.len() + choice.len()).sum::<usize>();
        let size: usize = out.iter().map(joined).sum();
        *bytes += size;
        if *bytes > 4 * MAX_PATTERN_BYTES || size > MAX_PATTERN_BYTES {
            return None;
        }
        out = out.iter().flat_map(|before| choices.iter().map(move |choice| format!("{before}{choice}"))).collect();
    }
    Some(out)
}

/// A pattern with its braces paired.
struct Reader<'a> {
    text: &'a str,
    /// Offset of the closing brace by the offset of its opening brace.
    closed: std::collections::HashMap<usize, usize>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        let (mut open, mut closed) = (Vec::new(), std::collections::HashMap::new());
        for (at, c) in special(text) {
            match c {
                '{' => open.push(at),
                '}' => {
                    if let Some(from) = open.pop() {
                        closed.insert(from, at);
                    }
                }
                _ => {}
            }
        }
        Self { text, closed }
    }

    fn slice(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or_default()
    }

    /// Parses a piece of the text into parts; `None` if groups are nested too deeply.
    fn parts(&self, from: usize, to: usize, depth: usize) -> Option<Vec<Part<'a>>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let (mut parts, mut start) = (Vec::new(), from);
        for (at, c) in special(self.slice(from, to)) {
            let at = from + at;
            // Inside a group that was already parsed.
            if at < start || c != '{' {
                continue;
            }
            let Some(close) = self.closed.get(&at).copied().filter(|close| *close < to) else { continue };
            let Some(group) = self.group(at + 1, close, depth)? else { continue };
            parts.push(Part::Text(self.slice(start, at)));
            parts.push(group);
            start = close + 1;
        }
        parts.push(Part::Text(self.slice(start, to)));
        Some(parts)
    }

    /// Parses the text between two braces; the inner `None` if it is neither alternatives nor a range.
    fn group(&self, from: usize, to: usize, depth: usize) -> Option<Option<Part<'a>>> {
        let (mut start, mut inside, mut choices) = (from, from, Vec::new());
        for (at, c) in special(self.slice(from, to)) {
            let at = from + at;
            if at < inside {
                continue;
            }
            match c {
                '{' => inside = self.closed.get(&at).map_or(inside, |close| close + 1),
                ',' => {
                    choices.push(self.parts(start, at, depth + 1)?);
                    start = at + 1;
                }
                _ => {}
            }
        }
        if choices.is_empty() {
            return Some(range(self.slice(from, to)).map(Part::Range));
        }
        choices.push(self.parts(start, to, depth + 1)?);
        Some(Some(Part::Choice(choices)))
    }
}

/// Returns the characters of a text that are not escaped by a backslash, with their offsets.
fn special(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut escaped = false;
    text.char_indices().filter(move |(_, c)| {
        let plain = !escaped;
        escaped = plain && *c == '\\';
        plain
    })
}

/// Parses `1..3` or `a..c`, ascending or descending. As in shells, numbers have the same width if the first or the last
/// begins with a zero.
fn range(text: &str) -> Option<Vec<String>> {
    let (first, last) = text.split_once("..")?;
    match (first.parse::<i64>(), last.parse::<i64>()) {
        (Ok(from), Ok(to)) => {
            let is_padded =
                |text: &str| text.trim_start_matches(['-', '+']).strip_prefix('0').is_some_and(|rest| !rest.is_empty());
            let width = if is_padded(first) || is_padded(last) { first.len().max(last.len()) } else { 0 };
            Some(span(from, to, |number| format!("{number:0width$}")))
        }
        _ => Some(span(first.parse::<char>().ok()?, last.parse::<char>().ok()?, |c| c.to_string())),
    }
}

/// Returns the texts of the values from first to last, but no more than one above the limit of patterns.
fn span<T: PartialOrd>(first: T, last: T, text: impl Fn(T) -> String) -> Vec<String>
where
    RangeInclusive<T>: DoubleEndedIterator<Item = T>,
{
    if first <= last {
        (first..=last).take(MAX_PATTERNS + 1).map(text).collect()
    } else {
        (last..=first).rev().take(MAX_PATTERNS + 1).map(text).collect()
    }
}
