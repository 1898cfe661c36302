//! Text for display: escaping, wrapping, Markdown, code, diffs.

mod ascii;
mod blocks;
mod clean;
mod diff;
mod highlight;
mod markdown;
mod table;
mod wrap;

pub(crate) use ascii::ascii;
pub(crate) use blocks::{code_cut, last_block, paragraph_cut};
pub(crate) use clean::exact_ascii;
pub use clean::{exact, visible};
pub(crate) use diff::{diff_lines, edit_diff, is_context, new_file};
pub(crate) use markdown::markdown;
pub(crate) use wrap::{Break, clip, cut_middle, hard_wrap, line_width, rows, width, wrap};

use unicode_segmentation::UnicodeSegmentation;

/// Returns the first non-empty line, cut to `most` graphemes, with an ellipsis if cut.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut graphemes = line.graphemes(true);
    let head: String = graphemes.by_ref().take(most).collect();
    if graphemes.next().is_some() { format!("{head}…") } else { head }
}

/// Formats a number with thousands separators.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number with a noun: `1 line`, `2 lines`.
pub fn count(number: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_digit_grouping() {
        assert_eq!((grouped(7), grouped(1234), grouped(1_000_000)), ("7".into(), "1,234".into(), "1,000,000".into()));
        assert_eq!((count(1, "call"), count(0, "call")), ("1 call".into(), "0 calls".into()));
    }
}
