//! Cleans and shortens text from servers before a model or a person sees it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use deepagents_core::escape::escaped_lines;
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

/// Returns a text for a person who decides about it: every character can be seen. Line breaks stay.
pub(crate) fn exact(text: &str) -> String {
    escaped_lines(text).collect::<Vec<_>>().join("\n")
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

/// Minimum length in bytes of secrets that are replaced even within a word. A shorter one may be part of any word.
pub(crate) const MIN_SECRET_BYTES: usize = 8;

/// Minimum length in bytes of the beginning of a secret that is replaced where a text was cut.
const MIN_BEGINNING_BYTES: usize = 4;

/// Replaces secrets in a text that a person will see, also where the text was cut within one.
pub(crate) fn redact(text: &str, secrets: &[String]) -> String {
    let secrets = || secrets.iter().filter(|secret| !secret.is_empty());
    let whole = secrets().fold(text.to_owned(), |text, secret| hide(secret, &text));
    let mut pieces: Vec<String> = whole.split('…').map(str::to_owned).collect();
    let cut = pieces.len() - 1;
    for piece in pieces.iter_mut().take(cut) {
        if let Some(kept) = secrets().find_map(|secret| without_beginning(secret, piece)).map(str::len) {
            piece.truncate(kept);
            piece.push_str("***");
        }
    }
    pieces.join("…")
}

/// Returns a text without the beginning of a secret at its end, if it ends with one.
fn without_beginning<'a>(secret: &str, text: &'a str) -> Option<&'a str> {
    let beginnings = secret.char_indices().rev().filter_map(|(end, _)| secret.get(..end));
    beginnings
        .take_while(|beginning| beginning.len() >= MIN_BEGINNING_BYTES)
        .find_map(|beginning| text.strip_suffix(beginning))
}

fn hide(secret: &str, text: &str) -> String {
    if secret.len() >= MIN_SECRET_BYTES || !text.contains(secret) {
        return text.replace(secret, "***");
    }
    let is_in_word =
        |edge: Option<char>, beside: Option<char>| [edge, beside].iter().all(|c| c.is_some_and(char::is_alphanumeric));
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(secret) {
        out.push_str(before);
        let is_part = is_in_word(secret.chars().next(), out.chars().next_back())
            || is_in_word(secret.chars().next_back(), after.chars().next());
        out.push_str(if is_part { secret } else { "***" });
        rest = after;
    }
    out + rest
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

/// Length in bytes of the hash in a file name.
const FILE_HASH_BYTES: usize = 8;

/// Makes a valid file name of a name that no other name has. A name that is none gets a hash, and so does one that looks
/// as if it had one.
pub(crate) fn distinct_file_name(name: &str) -> String {
    let safe = file_name(name);
    let end = name.rsplit('-').next().unwrap_or_default();
    let has_hash = end.len() == 2 * FILE_HASH_BYTES && end.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
    if safe == name && !has_hash { safe } else { format!("{safe}-{}", hash(name, FILE_HASH_BYTES)) }
}

/// Makes a valid file name of a name. Other names may have the same one.
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
    fn a_text_to_decide_about_hides_nothing_and_keeps_its_lines() {
        assert_eq!(exact("touch safe\u{202e}.txt\r\n\n\tb"), "touch safe\\u{202e}.txt\\r\n\n\\tb");
    }

    #[test]
    fn file_names_of_different_names_differ() {
        assert_eq!(distinct_file_name("my-server_2"), "my-server_2");
        let (long, longer) = ("x".repeat(90), "x".repeat(91));
        let changed = distinct_file_name("a b");
        let names = ["a b", "a_b", "a/b", &long, &longer, &changed].map(distinct_file_name);
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        assert!(!names.iter().any(|name| name.contains(['/', ' '])), "{names:?}");
    }

    #[test]
    fn secrets_are_redacted() {
        assert_eq!(redact("bad token tok-123", &["tok-123".to_owned()]), "bad token ***");
        assert_eq!(redact("a1 la1a (a1) a1a", &["a1".to_owned()]), "*** la1a (***) a1a");
        assert_eq!(redact("x/?a=1&b", &["?a=1".to_owned()]), "x/***&b");
        assert_eq!(redact("atok-12345b", &["tok-12345".to_owned()]), "a***b");
        assert_eq!(redact("x tok-1… (tok-12345) to…", &["tok-12345".to_owned()]), "x ***… (***) to…");
    }
}
