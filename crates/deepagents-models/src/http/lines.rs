//! Splits bytes into lines as they arrive.

use std::borrow::Cow;

/// What ends a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// A line feed, a carriage return, or both: server-sent events.
    Any,
    /// A line feed only: in JSON lines, a carriage return is white space.
    LineFeed,
}

/// Splits bytes into lines. Chunks may end anywhere, even within a character; the last line may lack its end.
#[derive(Debug)]
pub(super) struct Lines {
    ends_at: LineEnd,
    buffer: Vec<u8>,
    /// Start of the unread part of the buffer.
    at: usize,
    /// End of the part already searched for a line end.
    searched: usize,
    ended: bool,
}

impl Lines {
    pub(super) fn new(ends_at: LineEnd) -> Self {
        Self { ends_at, buffer: Vec::new(), at: 0, searched: 0, ended: false }
    }

    /// Feeds more bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.searched -= self.at;
            self.at = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Marks the end of the bytes.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Returns whether no more bytes follow.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns the next complete line without its end.
    pub(super) fn next(&mut self) -> Option<Cow<'_, str>> {
        let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
        let is_end = |byte: &u8| *byte == b'\n' || (*byte == b'\r' && self.ends_at == LineEnd::Any);
        let end = unsearched.iter().position(is_end).map(|at| self.searched + at);
        let (end, width) = match end {
            Some(end) => match self.buffer.get(end..).unwrap_or_default() {
                [b'\r', b'\n', ..] => (end, 2),
                // The line feed may be in the next chunk.
                [b'\r'] if !self.ended => {
                    self.searched = end;
                    return None;
                }
                _ => (end, 1),
            },
            None if self.ended && self.at < self.buffer.len() => (self.buffer.len(), 0),
            None => {
                self.searched = self.buffer.len();
                return None;
            }
        };
        let start = std::mem::replace(&mut self.at, end + width);
        self.searched = self.at;
        Some(String::from_utf8_lossy(self.buffer.get(start..end).unwrap_or_default()))
    }
}
