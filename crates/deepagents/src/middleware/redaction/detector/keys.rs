//! Keys and tokens, recognized by their form and by what precedes them.

use std::ops::Range;

use super::{BORDER, UNSPACED, captured, named};

expression!(
    FORM = r"(?x){BORDER}( sk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{{16,}} | gh[pousr]_[A-Za-z0-9]{{30,}}
        | github_pat_[A-Za-z0-9_]{{40,}} | glpat-[A-Za-z0-9_-]{{20,}} | (?:AKIA|ASIA)[A-Z0-9]{{16}}
        | AIza[A-Za-z0-9_-]{{35}} | xox[abprs]-[A-Za-z0-9-]{{10,}} | hf_[A-Za-z0-9]{{30,}} | npm_[A-Za-z0-9]{{36}}
        | (?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{{16,}} | SG\.[A-Za-z0-9_-]{{16,}}\.[A-Za-z0-9_-]{{16,}}
        | eyJ[A-Za-z0-9_-]{{8,}}\.eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}} )"
);
expression!(BEARER = r"(?i){BORDER}bearer[ \t]+([A-Z0-9._~+/=-]{{16,}})");
expression!(
    AUTHORIZATION = r#"(?i)authorization\\*["']?[ \t]*[:=][ \t]*\\*["']?(?:apikey|basic|bearer|token)[ \t]+([A-Z0-9._~+/=:-]{{8,}})"#
);
expression!(USER = r#"[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"'<>{UNSPACED}]*:([^\s/"'<>{UNSPACED}]{{3,}})@"#);
expression!(
    AUTHORIZATION_BEGIN =
        r#"(?i)(?:authorization\\*["']?[ \t]*(?:[:=][ \t]*\\*["']?(?:[a-z]+[ \t]+)?)?|bearer[ \t]+)[!-~]*\z"#
);
/// Returns the keys and tokens in a text, in no particular order.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let mut found = captured(&FORM, text);
    for sent in [&BEARER, &AUTHORIZATION] {
        found.extend(captured(sent, text).into_iter().filter(|range| {
            let value = text.get(range.clone()).unwrap_or_default();
            // `Bearer authentication` is prose; a real token does not consist of lower-case letters only.
            value.contains(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase()) && !named::is_placeholder(value)
        }));
    }
    let passwords = captured(&USER, text).into_iter();
    found.extend(passwords.filter(|range| !named::is_placeholder(text.get(range.clone()).unwrap_or_default())));
    found.extend(named::find(text));
    found
}

/// Returns the position from which there may be an incomplete one.
pub(super) fn open_from(text: &str) -> usize {
    let sent = AUTHORIZATION_BEGIN.iter().find_map(|begin| begin.find(text)).map(|begin| begin.start());
    named::open_from(text).min(sent.unwrap_or(text.len()))
}
