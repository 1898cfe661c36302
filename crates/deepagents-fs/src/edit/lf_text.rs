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

    /// Leaves a text as it is.
    pub(super) fn unchanged(original: &'a str) -> Self {
        Self { text: Cow::Borrowed(original), original }
    }

    pub(super) fn has_crlf(&self) -> bool {
        matches!(self.text, Cow::Owned(_))
    }

    /// Returns whether some lines of the original end with `\r\n` and others with `\n` alone.
    pub(super) fn is_mixed(&self) -> bool {
        let ends = || memchr::memchr_iter(b'\n', self.text.as_bytes()).count();
        self.has_crlf() && ends() > self.original.len() - self.text.len()
    }

    pub(super) fn positions(&self) -> Positions<'a> {
        let (finder, original) = (memchr::memmem::Finder::new(b"\r\n"), self.original.as_bytes());
        // Nothing was removed from a text that is left as it is.
        let next = if self.has_crlf() { finder.find(original) } else { None };
        Positions { finder, original, next, at: 0, removed: 0, line: None }
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
    /// The last answer of `is_crlf_at`, and up to which offset it holds.
    line: Option<(usize, bool)>,
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

    /// Returns whether the line that contains an offset of the original ends with `\r\n`; for a last line without an
    /// end, whether the one before does. Offsets must be queried in ascending order.
    pub(super) fn is_crlf_at(&mut self, offset: usize) -> bool {
        if let Some((_, is_crlf)) = self.line.filter(|(end, _)| offset <= *end) {
            return is_crlf;
        }
        let (before, rest) = self.original.split_at_checked(offset).unwrap_or((self.original, &[]));
        let next = memchr::memchr(b'\n', rest).map(|found| offset + found);
        let end = next.or_else(|| memchr::memrchr(b'\n', before));
        let line = end.and_then(|end| self.original.get(..end));
        let is_crlf = line.is_some_and(|line| line.ends_with(b"\r"));
        self.line = Some((next.unwrap_or(usize::MAX), is_crlf));
        is_crlf
    }
}
