//! Escapes untrusted text so that every character is visible to a person who must decide about it, in any place that shows
//! plain text: logs, editors, questions to other programs.

/// Limit of combining marks per letter; more would cover the surrounding text.
const MAX_COMBINING_MARKS: usize = 2;

/// Returns the text as one line. Characters without a glyph of their own, such as control characters, line breaks,
/// zero-width and bidi characters, tags and any blank other than a space, are escaped.
///
/// ```
/// use deepagents_core::escape::escaped;
/// assert_eq!(escaped("rm -rf \u{202e}x\n? yes"), r"rm -rf \u{202e}x\n? yes");
/// ```
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut marks = MAX_COMBINING_MARKS;
    for c in text.chars() {
        if c.is_ascii() {
            marks = if c.is_ascii_alphanumeric() { 0 } else { MAX_COMBINING_MARKS };
            if c.is_ascii_control() { out.extend(c.escape_default()) } else { out.push(c) }
        } else if is_hidden(c) {
            marks = MAX_COMBINING_MARKS;
            out.extend(c.escape_unicode());
        } else if !is_mark(c) {
            marks = if c.is_alphanumeric() { 0 } else { MAX_COMBINING_MARKS };
            out.push(c);
        } else if marks < MAX_COMBINING_MARKS {
            marks += 1;
            out.push(c);
        } else {
            out.extend(c.escape_unicode());
        }
    }
    out
}

/// Returns the lines of a text, each [escaped].
pub fn escaped_lines(text: &str) -> impl Iterator<Item = String> {
    text.strip_suffix('\n').unwrap_or(text).split('\n').map(escaped)
}

/// Returns `true` if a non-ASCII character is invisible, looks like a blank, or changes how other characters are
/// displayed.
pub fn is_hidden(c: char) -> bool {
    // `escape_debug` covers characters without a glyph: control, format, separator, unassigned and private-use
    // characters.
    let unprintable = || !matches!(c.escape_debug().len(), 1) && !is_mark(c);
    let blank = matches!(c, '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}');
    let selector = matches!(
        c,
        '\u{34f}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}'
    );
    blank || selector || unprintable()
}

/// Returns `true` for a combining mark.
fn is_mark(c: char) -> bool {
    // `escape_debug` escapes a mark at the start of a text but not after a letter.
    let behind: String = ['a', c].iter().collect();
    c.escape_debug().len() > 1 && behind.escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(escaped("rm -rf \u{202e}x\u{200b}y\u{feff}"), "rm -rf \\u{202e}x\\u{200b}y\\u{feff}");
        assert_eq!(escaped("a\u{e0041}\u{e007f}b"), "a\\u{e0041}\\u{e007f}b");
        assert_eq!(escaped("a\nb\tc\r\x1b[2J\u{9b}1m\u{7f}"), "a\\nb\\tc\\r\\u{1b}[2J\\u{9b}1m\\u{7f}");
        assert_eq!(escaped("a\u{a0}b\u{2003}c\u{3164}d\u{2028}e"), "a\\u{a0}b\\u{2003}c\\u{3164}d\\u{2028}e");
        assert_eq!(escaped("x\u{fe0f}\u{ad}\u{180e}"), "x\\u{fe0f}\\u{ad}\\u{180e}");
    }

    #[test]
    fn letters_of_all_scripts_are_kept_and_combining_marks_do_not_pile_up() {
        for text in ["Grüße, 世界 — «да» \\ \" '", "e\u{301}", "हिन्दी", "a\u{304}\u{301}"] {
            assert_eq!(escaped(text), text);
        }
        assert_eq!(escaped("a\u{301}\u{301}\u{301}"), "a\u{301}\u{301}\\u{301}");
        assert_eq!(escaped("\u{338}x /\u{338} —\u{338}"), "\\u{338}x /\\u{338} —\\u{338}");
    }

    proptest! {
        #[test]
        fn no_hidden_character_remains(text in any::<String>()) {
            let shown = escaped(&text);
            prop_assert!(!shown.chars().any(|c| c.is_control() || !c.is_ascii() && is_hidden(c)), "{:?}", shown);
        }
    }
}
