//! Incremental decoder for JSON lines.

use super::frames::Frame;

/// Splits bytes into lines. Chunks may end anywhere; the last line may lack its terminator.
#[derive(Debug, Default)]
pub(crate) struct LineDecoder {
    buffer: Vec<u8>,
    at: usize,
    /// End of the part already searched for a line end.
    searched: usize,
    ended: bool,
}

impl LineDecoder {
    /// Feeds more bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.searched -= self.at;
            self.at = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Marks the end of the bytes.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Returns the next non-blank line.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            let (end, next) = match unsearched.iter().position(|byte| *byte == b'\n') {
                Some(offset) => (self.searched + offset, self.searched + offset + 1),
                None if self.ended && self.at < self.buffer.len() => (self.buffer.len(), self.buffer.len()),
                None => {
                    self.searched = self.buffer.len();
                    return None;
                }
            };
            let line = self.buffer.get(self.at..end).unwrap_or_default();
            let data = String::from_utf8_lossy(line).trim().to_owned();
            (self.at, self.searched) = (next, next);
            if !data.is_empty() {
                return Some(Frame { name: String::new(), data });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_complete_however_they_are_chunked_and_may_end_without_a_newline() {
        let text = "{\"a\":1}\r\n\n{\"b\":\"é\"}\n{\"c\":3}".as_bytes();
        for size in 1..text.len() {
            let (mut decoder, mut lines) = (LineDecoder::default(), Vec::new());
            for piece in text.chunks(size) {
                decoder.push(piece);
                lines.extend(std::iter::from_fn(|| decoder.next()).map(|frame| frame.data));
            }
            decoder.end();
            lines.extend(std::iter::from_fn(|| decoder.next()).map(|frame| frame.data));
            assert_eq!(lines, ["{\"a\":1}", "{\"b\":\"é\"}", "{\"c\":3}"]);
        }
    }
}
