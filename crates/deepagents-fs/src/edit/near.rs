//! Finds lines similar to one that was not found.

use super::NearLine;

/// Maximum number of lines compared in a search for similar lines.
const MAX_COMPARED_LINES: usize = 20_000;

/// Returns up to three lines of a text that resemble the first non-blank line of `old`, the closest first.
pub(super) fn nearest(text: &str, old: &str) -> Vec<NearLine> {
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
    let clip = |line: &str| line.chars().take(200).collect();
    scored.into_iter().take(3).map(|(_, number, line)| NearLine { number, text: clip(line) }).collect()
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
