//! Shortens and joins texts.

use deepagents_core::message::Block;

/// Returns the first `max` characters of a text.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    truncated(text, max, "")
}

/// Returns a text, or its first `max` characters and a mark if it is longer.
pub(crate) fn truncated(text: &str, max: usize, mark: &str) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}{mark}", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Returns a text of at most about `max` characters, with a mark in place of its middle if it is longer.
pub(crate) fn without_middle(text: &str, max: usize, mark: &str) -> String {
    let (length, half) = (text.chars().count(), max / 2);
    if length <= max {
        return text.to_owned();
    }
    let tail = text.char_indices().nth(length - half).map_or("", |(start, _)| text.get(start..).unwrap_or_default());
    format!("{}{mark}{tail}", shorten(text, half))
}

/// Joins a text into one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the texts of content blocks, one per line.
pub(crate) fn of_blocks(content: &[Block]) -> String {
    content.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n")
}
