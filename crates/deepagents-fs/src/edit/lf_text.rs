//! Text normalised for matching, and the mapping back to the original.

use std::borrow::Cow;

/// A text with `\r\n` replaced by `\n`.
pub(super) struct LfText<'a> {
    pub(super) text: Cow<'a, str>,
    original: &'a str,
}

impl<'a> LfText<'a> {
    pub(super) fn new(original: &'a str) -> Self {
        let has_crlf = memchr::memmem::find(original.as_bytes(), b"\r\n").is_some();
        let text = if has_crlf { Cow::Owned(original.replace("\r\n", "\n")) } else { Cow::Borrowed(original) };
        Self { text, original }
    }

    pub(super) fn has_crlf(&self) -> bool {
        matches!(self.text, Cow::Owned(_))
    }

    pub(super) fn positions(&self) -> Positions<'a> {
        let (finder, original) = (memchr::memmem::Finder::new(b"\r\n"), self.original.as_bytes());
        let next = finder.find(original);
        Positions { finder, original, next, at: 0, removed: 0 }
    }
}

/// Maps positions in the normalised text to the original. Positions must be queried in ascending order.
pub(super) struct Positions<'a> {
    finder: memchr::memmem::Finder<'static>,
    original: &'a [u8],
    /// The next `\r\n` of the original.
    next: Option<usize>,
    /// Offset at which the search for it began.
    at: usize,
    /// Number of `\r` removed before it.
    removed: usize,
}

impl Positions<'_> {
    /// Returns the offset in the original for a position in the normalised text.
    pub(super) fn original(&mut self, position: usize) -> usize {
        // In the normalised text, the newline is at the `\r`'s offset minus the number of `\r` removed before it.
        while let Some(next) = self.next.filter(|next| next - self.removed < position) {
            self.removed += 1;
            self.at = next + 2;
            let rest = self.original.get(self.at..).unwrap_or_default();
            self.next = self.finder.find(rest).map(|found| self.at + found);
        }
        position + self.removed
    }
}
