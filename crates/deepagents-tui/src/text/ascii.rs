//! Text for terminals that show only ASCII.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar;

/// Replaces each non-ASCII character without changing the width: the interface's symbols by similar characters, all
/// others by question marks.
pub(crate) fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match mark(c) {
            Some(mark) => out.push(mark),
            None => out.extend(std::iter::repeat_n('?', c.width().unwrap_or(0))),
        }
    }
    Cow::Owned(out)
}

fn mark(c: char) -> Option<char> {
    Some(match c {
        c if c.is_ascii() => c,
        '›' | '❯' | '▸' => '>',
        '●' | '•' | '✻' => '*',
        '◌' | '☐' | '○' => 'o',
        '☑' | '✓' => 'x',
        '✗' => '!',
        '◐' => '~',
        '·' | '─' | '–' | '—' | '└' | '├' | '┼' | '┌' | '┐' | '┘' | '┬' | '┴' | '┤' => '-',
        '│' | '┃' | '▎' => '|',
        '…' => '.',
        '↳' | '→' => '>',
        '←' => '<',
        '↑' => '^',
        '↓' => 'v',
        '⏎' => '/',
        '█' | '▓' => '#',
        '▒' => '+',
        '░' => ':',
        '▞' => '%',
        '▪' => '=',
        '“' | '”' => '"',
        '‘' | '’' => '\'',
        '⠋'..='⠿' => '*',
        '\u{a0}' => ' ',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_symbols_stay_distinct_and_keep_their_width() {
        assert_eq!(ascii("❯ ☑ a · ◐ b · ☐ c…"), "> x a - ~ b - o c.");
        assert_eq!(ascii("漢字 é"), "???? ?");
        assert_eq!(ascii("e\u{301}"), "e");
        assert!(matches!(ascii("plain"), Cow::Borrowed(_)));
    }
}
