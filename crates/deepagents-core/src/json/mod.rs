//! Helpers for slightly malformed JSON from other programs.

mod outline;

pub use outline::Outline;

/// Replaces escapes of unpaired surrogates. JavaScript writes them when it cuts a string within a character, and JSON
/// parsers reject them.
///
/// ```
/// assert_eq!(deepagents_core::json::mend_escapes(r#""a\ud83d""#), r#""a\ufffd""#);
/// ```
pub fn mend_escapes(text: &str) -> String {
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        mended.push_str(before);
        let is_low = |text: &str| matches!(unit(text), Some(0xdc00..=0xdfff));
        let (kept, width) = match unit(after) {
            // A valid pair, or an unpaired high surrogate.
            Some(0xd800..=0xdbff) => {
                match after.get(5..).and_then(|next| next.strip_prefix('\\')).is_some_and(is_low) {
                    true => (true, 11),
                    false => (false, 5),
                }
            }
            Some(0xdc00..=0xdfff) => (false, 5),
            Some(_) => (true, 5),
            None => (true, after.chars().next().map_or(0, char::len_utf8)),
        };
        let (taken, behind) = after.split_at_checked(width).unwrap_or((after, ""));
        mended.push('\\');
        mended.push_str(if kept { taken } else { "ufffd" });
        rest = behind;
    }
    mended.push_str(rest);
    mended
}

/// Returns the code unit of an escape such as `u00e9`, if the text starts with one.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('u')?.get(..4)?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_surrogate_escapes_are_replaced() {
        for (text, expected) in [
            (r#""a\ud83d""#, r#""a\ufffd""#),
            (r#""\ud83d\ude00 \ude00\ud83d\u0041""#, r#""\ud83d\ude00 \ufffd\ufffd\u0041""#),
            (r#""\\ud83d \" \u12 é\"#, r#""\\ud83d \" \u12 é\"#),
            (r"\ud83d\ud83d\ude00", r"\ufffd\ud83d\ude00"),
            (r"\é\", r"\é\"),
        ] {
            assert_eq!(mend_escapes(text), expected);
        }
    }
}
