//! Redaction of streamed text.

use super::detector::ends_word;
use super::rules::Rules;
use super::span::Found;
use crate::blocked::RedactionBlocked;

/// Number of held bytes up to which the text is checked again for each word.
const SHORT_BYTES: usize = 1024;
/// Maximum number of held bytes to check repeatedly.
const MAX_RECHECKED_BYTES: usize = 64 * 1024;

/// Redacts a text that arrives in chunks, wherever they are split: a possible beginning of a match is held back until
/// it is certain.
#[derive(Debug, Default)]
pub(super) struct StreamRedactor {
    held: String,
    /// Number of bytes to hold before the next check.
    again: usize,
}

impl StreamRedactor {
    /// Adds a chunk and returns the text that can be shown.
    ///
    /// # Errors
    /// Returns an error if a rule blocks a match.
    pub(super) fn push(&mut self, piece: &str, rules: &Rules) -> Result<String, RedactionBlocked> {
        self.held.push_str(piece);
        // Text is shown word by word. Anything this long is not prose and is checked once at the end.
        if self.held.len() > MAX_RECHECKED_BYTES || self.held.len() < self.again || !piece.contains(ends_word) {
            return Ok(String::new());
        }
        let open = rules.open_from(&self.held);
        // Check long held text, such as a key, only after it has grown by an eighth, not for each word.
        let left = self.held.len() - open;
        self.again = if left > SHORT_BYTES { left + left / 8 } else { 0 };
        let ready: String = self.held.drain(..open).collect();
        show(ready, rules)
    }

    /// Returns the number of bytes held back.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns the rest at the end of the text.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub(super) fn finish(&mut self, rules: &Rules) -> Result<String, RedactionBlocked> {
        show(std::mem::take(&mut self.held), rules)
    }
}

fn show(text: String, rules: &Rules) -> Result<String, RedactionBlocked> {
    // Matches are counted in the whole text once it is complete.
    Ok(rules.redact(&text, &mut Found::new())?.unwrap_or(text))
}
