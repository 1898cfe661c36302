//! Reads the files that have changed.

use std::collections::BTreeMap;

use deepagents_core::state::State;
use deepagents_fs::{Backend, ByteRange, FsError, Kind, VPath};
use futures_util::future::join_all;

use crate::channels::MemoryFile;

/// Maximum number of bytes to read from a file, most of which may be comments.
const MAX_READ_BYTES: u64 = 1 << 20;
const COMMENT: &str = "<!--";
const COMMENT_END: &str = "-->";

type Contents = BTreeMap<VPath, MemoryFile>;

/// Returns the existing files. A file whose version is known is not read again.
pub(super) async fn all(
    backend: &dyn Backend,
    state: &State,
    paths: &[VPath],
    known: &Contents,
    max_chars: usize,
) -> Contents {
    let looks = paths.iter().map(|path| async move {
        let file = one(backend, state, path, known.get(path), max_chars).await;
        file.map(|file| (path.clone(), file))
    });
    join_all(looks).await.into_iter().flatten().collect()
}

/// Returns the differences.
pub(super) fn changes(mut known: Contents, found: Contents) -> BTreeMap<VPath, Option<MemoryFile>> {
    let mut changes = BTreeMap::new();
    for (path, file) in found {
        if known.remove(&path).as_ref() != Some(&file) {
            changes.insert(path, Some(file));
        }
    }
    changes.extend(known.into_keys().map(|path| (path, None)));
    changes
}

async fn one(
    backend: &dyn Backend,
    state: &State,
    path: &VPath,
    known: Option<&MemoryFile>,
    max_chars: usize,
) -> Option<MemoryFile> {
    let problem = |problem: String| MemoryFile { problem: Some(problem), ..MemoryFile::default() };
    let failed = |error: FsError| match error {
        FsError::NotFound { .. } => None,
        error => Some(problem(error.to_string())),
    };
    let stat = match backend.stat(state, path).await {
        Ok(stat) => stat,
        Err(error) => return failed(error),
    };
    if stat.kind != Kind::File {
        return Some(problem(format!("{path} is not a file")));
    }
    if let Some(known) = known.filter(|known| known.version.as_ref() == Some(&stat.version)) {
        return Some(known.clone());
    }
    let read = match backend.read(state, path, ByteRange::first(MAX_READ_BYTES)).await {
        Ok(read) => read,
        Err(error) => return failed(error),
    };
    let whole = read.bytes.len() as u64 >= read.stat.size;
    let version = Some(read.stat.version);
    let Some(text) = decode(&read.bytes, whole) else {
        return Some(MemoryFile { version, ..problem(format!("{path} is not UTF-8 text")) });
    };
    let text = without_comments(text, whole);
    let kept = cut(text.trim_end(), max_chars);
    let cut = !whole || kept.len() < text.trim_end().len();
    Some(MemoryFile { version, text: kept.to_owned(), cut, problem: None })
}

/// Decodes text. If the bytes are only the beginning, the last character may be incomplete.
fn decode(bytes: &[u8], whole: bool) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if !whole && error.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    Some(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Removes HTML comments. An unclosed comment is kept as text, unless it may be closed in the part that was not read.
fn without_comments(text: &str, whole: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(COMMENT) {
        match after.split_once(COMMENT_END) {
            None if whole => break,
            closed => {
                out.push_str(before);
                rest = closed.map_or("", |(_, after)| after);
            }
        }
    }
    out.push_str(rest);
    out
}

/// Truncates a text after the last complete line within a number of characters. A longer first line is truncated at the
/// limit.
pub(super) fn cut(text: &str, max_chars: usize) -> &str {
    let Some((end, _)) = text.char_indices().nth(max_chars) else { return text };
    let head = text.get(..end).unwrap_or_default();
    match head.rsplit_once('\n') {
        Some((lines, _)) if !lines.trim().is_empty() => lines,
        _ => head,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multi_line_comments_are_removed_and_an_unclosed_one_stays() {
        assert_eq!(without_comments("a<!-- x\ny -->b<!---->c", true), "abc");
        assert_eq!(without_comments("a<!-- x -->b<!-- y", true), "ab<!-- y");
        assert_eq!(without_comments("a<!-- x -->b<!-- y", false), "ab");
    }

    #[test]
    fn text_is_cut_at_a_line_end_if_there_is_one() {
        assert_eq!(cut("one\ntwo\nthree", 9), "one\ntwo");
        assert_eq!(cut("seventeen", 5), "seven");
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöü", 2), "äö");
    }

    proptest::proptest! {
        #[test]
        fn a_cut_text_is_a_prefix_within_the_limit(text in "[a\u{e4}\n ]{0,40}", max in 0usize..30) {
            let head = cut(&text, max);
            proptest::prop_assert!(text.starts_with(head));
            proptest::prop_assert!(head.chars().count() <= max);
        }

        #[test]
        fn no_closed_comment_remains(text in "(<!--|-->|a|\n){0,12}") {
            let left = without_comments(&text, false);
            let inside = left.split_once(COMMENT).and_then(|(_, after)| after.split_once(COMMENT_END));
            // Two halves of a comment can only meet where a comment between them was removed.
            proptest::prop_assert!(inside.is_none() || text.matches(COMMENT).count() > 1);
        }
    }
}
