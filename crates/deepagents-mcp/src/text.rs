//! Cleans and shortens text from servers before a model or a person sees it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

/// Maximum length of a tool description, in characters. Every model call pays for it.
const MAX_DESCRIPTION_CHARS: usize = 4_000;

/// Removes invisible characters: control characters except newline and tab, tag characters, bidirectional marks and
/// zero-width characters. A server must not show the model anything that a person cannot see.
pub(crate) fn visible(text: &str) -> String {
    text.chars().filter(|c| !is_hidden(*c)).collect()
}

fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => true,
        '\u{202a}'..='\u{202e}' | '\u{e0000}'..='\u{e0fff}' | '\u{fff9}'..='\u{fffb}' => true,
        c => c.is_control(),
    }
}

/// Cleans the description of a tool and cuts it to [`MAX_DESCRIPTION_CHARS`].
pub(crate) fn description(text: &str) -> String {
    cut(visible(text).trim(), MAX_DESCRIPTION_CHARS)
}

/// Joins a text to one line of at most `most` characters.
pub(crate) fn line(text: &str, most: usize) -> String {
    cut(&visible(text).split_whitespace().collect::<Vec<_>>().join(" "), most)
}

/// Cuts a text to at most `most` characters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

/// Replaces the middle of a text longer than `most` characters with the number of characters left out.
pub(crate) fn ends(text: &str, most: usize) -> String {
    let missing = text.chars().count().saturating_sub(most);
    if missing == 0 {
        return text.to_owned();
    }
    let half = most / 2;
    let beginning: String = text.chars().take(half).collect();
    let end: String = text.chars().skip(half + missing).collect();
    format!("{beginning}\n\n[… {missing} characters are not shown here …]\n\n{end}")
}

/// Replaces secrets in a text that a person will see.
pub(crate) fn redact(text: &str, secrets: &[String]) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
}

/// Returns the first `bytes` bytes of a text's SHA-256 as hex digits.
pub(crate) fn hash(text: &str, bytes: usize) -> String {
    Sha256::digest(text).iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a path beside a file to write its next version to. Writes at the same time have different ones.
pub(crate) fn new_version(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    path.with_extension(format!("{}-{}.new", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Makes a valid file name of a name.
pub(crate) fn file_name(name: &str) -> String {
    let safe: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' }).collect();
    safe.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_removed() {
        assert_eq!(visible("a\u{e0041}b\u{200b}c\u{202e}d\u{7}\n\te"), "abcd\n\te");
        assert_eq!(line("one\n  two\u{1b}[31m", 40), "one two[31m");
    }

    #[test]
    fn a_long_text_is_cut_at_a_character_boundary() {
        assert_eq!(cut("größe", 3), "grö…");
        assert_eq!(cut("größe", 5), "größe");
        assert_eq!(description(&"x".repeat(5_000)).chars().count(), MAX_DESCRIPTION_CHARS + 1);
    }

    #[test]
    fn a_long_text_is_shortened_to_both_ends() {
        assert_eq!(ends("größe", 5), "größe");
        assert_eq!(ends("größere", 4), "gr\n\n[… 3 characters are not shown here …]\n\nre");
    }

    #[test]
    fn secrets_are_redacted() {
        assert_eq!(redact("bad token tok-123", &["tok-123".to_owned()]), "bad token ***");
    }
}
