//! Finds lines similar to those that were not found.

use std::cmp::Reverse;

use super::NearLine;

/// Maximum number of lines compared in a search for similar lines.
const MAX_COMPARED_LINES: usize = 20_000;

/// Maximum number of places and of lines at each compared in a search for where a text of several lines differs.
const MAX_PLACES: usize = 100;
const MAX_LINES_AT_PLACE: usize = 200;

/// Maximum number of lines that an error shows.
const MAX_SHOWN: usize = 3;

/// Returns up to three lines of a text that resemble the first non-blank line of `old`, the closest first. If that line
/// itself is in the text, returns the lines there that differ from those of `old`.
pub(super) fn nearest(text: &str, old: &str) -> Vec<NearLine> {
    let differing = differing(text, old);
    if differing.is_empty() { resembling(text, old) } else { differing }
}

fn near_line(number: u64, line: &str) -> NearLine {
    NearLine { number, text: line.chars().take(200).collect() }
}

/// Returns the first lines that differ from `old` at the place that begins like it and has most of its lines.
fn differing(text: &str, old: &str) -> Vec<NearLine> {
    let mut wanted = old.lines().skip_while(|line| line.trim().is_empty());
    let Some(first) = wanted.next().map(str::trim) else { return Vec::new() };
    let wanted: Vec<&str> = wanted.take(MAX_LINES_AT_PLACE).map(str::trim).collect();
    let lines: Vec<&str> = text.lines().take(MAX_COMPARED_LINES).collect();
    let pairs_at = |at: usize| lines.iter().enumerate().skip(at + 1).zip(&wanted);
    let equal_at = |at: usize| pairs_at(at).filter(|((_, line), wanted)| line.trim() == **wanted).count();
    let places = lines.iter().enumerate().filter(|(_, line)| line.trim() == first).map(|(at, _)| at).take(MAX_PLACES);
    // Of places that are equally close, the first one.
    let Some(best) = places.min_by_key(|at| Reverse(equal_at(*at))) else { return Vec::new() };
    let differ = pairs_at(best).filter(|((_, line), wanted)| line.trim() != **wanted);
    differ.take(MAX_SHOWN).map(|((at, line), _)| near_line(at as u64 + 1, line)).collect()
}

/// Returns the lines that resemble the first non-blank line of `old`.
fn resembling(text: &str, old: &str) -> Vec<NearLine> {
    let Some(wanted) = old.lines().map(str::trim).find(|line| !line.is_empty()) else { return Vec::new() };
    let wanted = pairs(wanted);
    let mut scored: Vec<(usize, u64, &str)> = Vec::new();
    for (number, line) in (1..).zip(text.lines().take(MAX_COMPARED_LINES)) {
        let score = similarity(&wanted, &pairs(line.trim()));
        if score >= 600 {
            scored.push((score, number, line));
        }
    }
    scored.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    scored.into_iter().take(MAX_SHOWN).map(|(_, number, line)| near_line(number, line)).collect()
}

/// Returns the pairs of adjacent characters in the first 200 characters of a line, sorted.
fn pairs(line: &str) -> Vec<(char, char)> {
    let line = line.chars().take(200);
    let mut out: Vec<_> = line.clone().zip(line.skip(1)).collect();
    out.sort_unstable();
    out
}

/// Returns the similarity of two sorted lists in thousandths (the Sørensen–Dice coefficient).
fn similarity(a: &[(char, char)], b: &[(char, char)]) -> usize {
    let (mut left, mut right) = (a.iter().peekable(), b.iter().peekable());
    let mut shared = 0_usize;
    while let (Some(x), Some(y)) = (left.peek(), right.peek()) {
        match x.cmp(y) {
            std::cmp::Ordering::Less => drop(left.next()),
            std::cmp::Ordering::Greater => drop(right.next()),
            std::cmp::Ordering::Equal => {
                shared += 1;
                left.next();
                right.next();
            }
        }
    }
    (2000 * shared).checked_div(a.len() + b.len()).unwrap_or(0)
}
