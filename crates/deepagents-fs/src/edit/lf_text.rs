//! Text as it is matched, and the way back to how it is written.

use std::borrow::Cow;

/// A text with `\r\n` made `\n`.
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

/// The way back from positions in the changed text to those in the original, for ever later ones.
pub(super) struct Positions<'a> {
    finder: memchr::memmem::Finder<'static>,
    original: &'a [u8],
    /// The next `\r\n` of the original.
    next: Option<usize>,
    /// Where the search for it began.
    at: usize,
    /// Characters taken out before it.
    removed: usize,
}

impl Positions<'_> {
    /// Where a position of the text is in the original.
    pub(super) fn original(&mut self, position: usize) -> usize {
        // The newline stands where the `\r` did, less what was taken out before.
        while let Some(next) = self.next.filter(|next| next - self.removed < position) {
            self.removed += 1;
            self.at = next + 2;
            let rest = self.original.get(self.at..).unwrap_or_default();
            self.next = self.finder.find(rest).map(|found| self.at + found);
        }
        position + self.removed
    }
}
