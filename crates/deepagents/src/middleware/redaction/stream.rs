//! Text that comes in pieces.

use super::detector::ends_word;
use super::rules::{Found, RedactionBlocked, Rules};

/// Bytes that may be held and looked at again with each word.
const SHORT: usize = 1024;
/// Bytes that may be held and looked at again.
const LONG: usize = 64 * 1024;

/// Hides what is found in a text that comes in pieces, wherever they are cut: what may be the beginning of something is
/// held back until it is known.
#[derive(Debug, Default)]
pub(super) struct StreamRedactor {
    held: String,
    /// How much has to be held before it is looked at again.
    again: usize,
}

impl StreamRedactor {
    /// Takes a piece; gives what can be shown.
    ///
    /// # Errors
    /// When a rule blocks what was found.
    pub(super) fn push(&mut self, piece: &str, rules: &Rules) -> Result<String, RedactionBlocked> {
        self.held.push_str(piece);
        // Words are shown once they are complete. What is as long as this is no text, and is looked at once.
        if self.held.len() > LONG || self.held.len() < self.again || !piece.contains(ends_word) {
            return Ok(String::new());
        }
        let open = rules.open_from(&self.held);
        // What is long and held, such as a key, is looked at again once there is a part more of it: not with each word.
        let left = self.held.len() - open;
        self.again = if left > SHORT { left + left / 8 } else { 0 };
        let ready: String = self.held.drain(..open).collect();
        show(ready, rules)
    }

    /// Gives what is left at the end.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(super) fn finish(&mut self, rules: &Rules) -> Result<String, RedactionBlocked> {
        show(std::mem::take(&mut self.held), rules)
    }
}

fn show(text: String, rules: &Rules) -> Result<String, RedactionBlocked> {
    // What is found is counted in the whole text, once that is there.
    Ok(rules.redact(&text, &mut Found::new())?.unwrap_or(text))
}
