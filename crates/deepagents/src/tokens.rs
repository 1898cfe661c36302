//! Estimates the number of tokens of a text.
//!
//! Four ASCII characters count as one token, any other letter as half a token, and an ideograph as a whole one. Token
//! limits are compared in quarters of a token, to avoid rounding.

/// Quarters per token.
const QUARTERS_PER_TOKEN: usize = 4;

/// Returns the weight of a character in quarters of a token.
fn weight(c: char) -> usize {
    match c {
        c if c.is_ascii() => 1,
        c if c < '\u{2E80}' => 2,
        _ => QUARTERS_PER_TOKEN,
    }
}

/// Returns the weight of a text in quarters of a token.
pub(crate) fn quarters(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(weight).sum() }
}

/// Converts a limit in tokens to quarters of a token. Zero means no limit, as `None` does.
pub(crate) fn limit(tokens: Option<usize>) -> Option<usize> {
    tokens.filter(|&tokens| tokens > 0).map(|tokens| tokens.saturating_mul(QUARTERS_PER_TOKEN))
}

/// Estimates the number of tokens of a text.
pub(crate) fn estimate(text: &str) -> u64 {
    (quarters(text) as u64).div_ceil(QUARTERS_PER_TOKEN as u64)
}

/// Returns the longest prefix of a text whose weight is at most this many quarters of a token.
pub(crate) fn head(text: &str, quarters: usize) -> &str {
    let mut left = quarters;
    let end = text.char_indices().find(|&(_, c)| match left.checked_sub(weight(c)) {
        Some(rest) => {
            left = rest;
            false
        }
        None => true,
    });
    end.map_or(text, |(at, _)| text.get(..at).unwrap_or_default())
}

/// Returns the longest suffix of a text whose weight is at most this many quarters of a token.
pub(crate) fn tail(text: &str, quarters: usize) -> &str {
    let mut left = quarters;
    let fits = |&(_, c): &(usize, char)| match left.checked_sub(weight(c)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let start = text.char_indices().rev().take_while(fits).last();
    start.map_or("", |(at, _)| text.get(at..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_estimated_about_right_in_any_script() {
        assert_eq!(estimate("abcdefgh"), 2);
        assert_eq!(estimate("\u{4f60}\u{597d}\u{4e16}\u{754c}"), 4);
        assert_eq!(estimate("приветик"), 4);
        assert_eq!(estimate(""), 0);
        assert_eq!((limit(Some(0)), limit(None), limit(Some(2))), (None, None, Some(8)));
    }

    #[test]
    fn the_ends_of_a_text_stay_within_their_weight_limit() {
        assert_eq!((head("abcdef", 4), head("ab", 4), head("", 4)), ("abcd", "ab", ""));
        assert_eq!((head("a你好", 5), head("你好", 3)), ("a你", ""));
        assert_eq!((tail("abcdef", 4), tail("ab", 4), tail("你好a", 5), tail("好", 3)), ("cdef", "ab", "好a", ""));
    }
}
