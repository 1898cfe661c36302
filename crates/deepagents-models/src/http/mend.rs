//! Repairs almost valid JSON, as some servers and models write it.

use std::borrow::Cow;

use deepagents_core::json::mend_escapes;

/// Repairs invalid JSON: unpaired surrogates become U+FFFD, non-finite numbers become null, and control characters in
/// strings are escaped.
pub(crate) fn mended(text: &str) -> String {
    let text = mend_escapes(text);
    let (mut out, mut rest, mut quoted) = (String::with_capacity(text.len()), text.as_str(), false);
    while let Some(next) = rest.chars().next() {
        let (put, taken) = match next {
            // An escaped quotation mark does not end a string.
            '\\' if quoted => as_it_is(rest, 1 + rest.chars().nth(1).map_or(0, char::len_utf8)),
            next if quoted && next < ' ' => (Cow::Owned(format!("\\u{:04x}", u32::from(next))), 1),
            _ if !quoted => match NO_NUMBERS.iter().find(|word| rest.starts_with(*word)) {
                Some(word) => (Cow::Borrowed("null"), word.len()),
                None => as_it_is(rest, next.len_utf8()),
            },
            _ => as_it_is(rest, next.len_utf8()),
        };
        // A quotation mark inside a string is handled as part of its escape.
        quoted ^= next == '"';
        out.push_str(&put);
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

const NO_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

fn as_it_is(text: &str, length: usize) -> (Cow<'_, str>, usize) {
    (Cow::Borrowed(text.get(..length).unwrap_or_default()), length)
}
