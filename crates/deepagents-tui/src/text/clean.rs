//! Keeps text from models, tools, files and servers from reaching the terminal as control sequences.
//!
//! Unlike `deepagents::escape`, whose text is for logs, editors and other programs, this keeps line breaks and tabs for
//! the layout, draws a control character in one column, and has a form that leaves emoji and joined letters whole.

use std::borrow::Cow;
use std::fmt::Write;

use deepagents::escape::is_hidden;

/// Replaces control characters by visible symbols, and writes out characters that reorder or hide text. Line breaks,
/// tabs, and joiners within letters and emoji remain.
///
/// ```
/// use deepagents_tui::text::visible;
/// assert_eq!(visible("plain\ttext\n"), "plain\ttext\n");
/// assert_eq!(visible("a\u{1b}[2Jb\rc\r\n"), "a␛[2Jb␍c\n");
/// assert_eq!(visible("rm \u{202e}txt"), "rm <U+202E>txt");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    rewrite(text, |c| is_control(c) || reorders(c), picture)
}

/// Like [`visible`], but also writes out every other character that is not what it looks like: joiners, variation
/// selectors and unusual white space. For text that the user decides on.
///
/// ```
/// use deepagents_tui::text::exact;
/// assert_eq!(exact("rm\u{200d} -r\u{a0}a"), "rm<U+200D> -r<U+00A0>a");
/// ```
pub fn exact(text: &str) -> Cow<'_, str> {
    rewrite(text, |c| is_control(c) || (!c.is_ascii() && is_hidden(c)), picture)
}

/// Like [`exact`], for terminals that show only ASCII: writes out every other character, so that different texts stay
/// different.
pub(crate) fn exact_ascii(text: &str) -> Cow<'_, str> {
    rewrite(text, |c| is_control(c) || !c.is_ascii(), |_| None)
}

/// Replaces each bad character by its picture, or by its code if it has none.
fn rewrite(text: &str, bad: impl Fn(char) -> bool, picture: impl Fn(char) -> Option<char>) -> Cow<'_, str> {
    if !text.chars().any(&bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if !bad(c) {
            out.push(c);
        } else if c == '\r' && chars.peek() == Some(&'\n') {
            // Drop the `\r` of a CRLF.
        } else if let Some(picture) = picture(c) {
            out.push(picture);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "<U+{:04X}>", u32::from(c));
        }
    }
    Cow::Owned(out)
}

fn is_control(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}

/// Returns whether a character reorders others, has no width, or ends a line in some terminals.
fn reorders(c: char) -> bool {
    matches!(
        c,
        '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{00ad}' | '\u{180e}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Returns the symbol of an ASCII control character.
fn picture(c: char) -> Option<char> {
    match u32::from(c) {
        code @ 0..0x20 => char::from_u32(0x2400 + code),
        0x7f => Some('␡'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_remains() {
        let evil = "\u{1b}]0;T\u{7}\u{9b}31m\u{1b}P$q\"p\u{1b}\\x\u{0}\u{7f}\u{85}";
        assert_eq!(visible(evil), "␛]0;T␇<U+009B>31m␛P$q\"p␛\\x␀␡<U+0085>");
        assert!(!exact(evil).chars().any(char::is_control));
    }

    #[test]
    fn what_is_made_visible_is_also_made_exact() {
        for c in ('\0'..='\u{ffff}').chain('\u{e0000}'..='\u{e0fff}') {
            let text = c.to_string();
            assert!(visible(&text) == text || exact(&text) != text, "{}", text.escape_unicode());
        }
        for hidden in ['\u{200c}', '\u{200d}', '\u{34f}', '\u{115f}', '\u{3164}', '\u{ffa0}', '\u{fe0f}', '\u{3000}'] {
            assert_ne!(exact(&hidden.to_string()), hidden.to_string(), "{}", hidden.escape_unicode());
        }
    }

    #[test]
    fn emoji_and_letters_of_all_scripts_are_kept() {
        let text = "漢字 👩\u{200d}🚀 e\u{301} שלום";
        assert!(matches!(visible(text), Cow::Borrowed(_)));
        assert!(exact(text).contains("<U+200D>"));
    }
}
