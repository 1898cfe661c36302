//! Incremental decoder for server-sent events.

use super::frames::Frame;

/// Splits a byte stream into events. Chunks may end anywhere, even within a character.
///
/// Unlike a browser, it returns a last event without its blank line, since some servers close right after it.
#[derive(Debug, Default)]
pub(crate) struct SseDecoder {
    buffer: Vec<u8>,
    /// Start of the unread part of the buffer.
    at: usize,
    /// End of the part already searched for a line end.
    searched: usize,
    event: Frame,
    has_data: bool,
    /// Whether there has been an event.
    has_events: bool,
    /// Lines that do not belong to an event.
    outside: String,
    ended: bool,
}

/// Maximum number of bytes kept of those lines.
const MAX_OUTSIDE_BYTES: usize = 16 << 20;

impl SseDecoder {
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

    fn line(&mut self) -> Option<(usize, usize)> {
        let start = self.at;
        let rest = self.buffer.get(self.searched..).unwrap_or_default();
        match rest.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            Some(offset) => {
                let end = self.searched + offset;
                let next = self.buffer.get(end + 1);
                let crlf = self.buffer.get(end) == Some(&b'\r');
                if crlf && next.is_none() && !self.ended {
                    // The line feed of a CRLF pair may be in the next chunk.
                    self.searched = end;
                    return None;
                }
                self.at = end + if crlf && next == Some(&b'\n') { 2 } else { 1 };
                self.searched = self.at;
                Some((start, end))
            }
            None if self.ended && start < self.buffer.len() => {
                self.at = self.buffer.len();
                self.searched = self.at;
                Some((start, self.at))
            }
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }

    fn field(&mut self, start: usize, end: usize) {
        let line = String::from_utf8_lossy(self.buffer.get(start..end).unwrap_or_default());
        let line = line.trim_start_matches('\u{feff}');
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.event.name),
            // A comment has an empty field name.
            "" | "id" | "retry" => {}
            _ if self.outside.len() + line.len() < MAX_OUTSIDE_BYTES => {
                self.outside.push_str(line);
                self.outside.push('\n');
            }
            _ => {}
        }
    }

    /// Takes the lines that do not belong to an event.
    pub(crate) fn take_outside(&mut self) -> String {
        std::mem::take(&mut self.outside)
    }

    /// Returns whether there has been an event.
    pub(crate) fn has_events(&self) -> bool {
        self.has_events
    }

    /// Returns the next complete event.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        while let Some((start, end)) = self.line() {
            if start < end {
                self.field(start, end);
            } else if let Some(event) = self.dispatch() {
                return Some(event);
            }
        }
        if self.ended { self.dispatch() } else { None }
    }

    fn dispatch(&mut self) -> Option<Frame> {
        let event = std::mem::take(&mut self.event);
        self.has_events |= self.has_data;
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(pieces: &[&[u8]]) -> Vec<Frame> {
        let (mut decoder, mut out) = (SseDecoder::default(), Vec::new());
        for piece in pieces {
            decoder.push(piece);
            out.extend(std::iter::from_fn(|| decoder.next()));
        }
        decoder.end();
        out.extend(std::iter::from_fn(|| decoder.next()));
        out
    }

    #[test]
    fn comments_names_and_multi_line_data_are_parsed_and_the_end_may_be_missing() {
        let text = b": hello\r\nevent: a\r\ndata: 1\r\ndata:2\r\n\r\n\r\ndata: [DONE]";
        let event = |name: &str, data: &str| Frame { name: name.into(), data: data.into() };
        assert_eq!(all(&[text]), [event("a", "1\n2"), event("", "[DONE]")]);
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(
            lines in prop::collection::vec("(data: ?[a-zé:]{0,5}|event: [a-z]{1,3}|:x|)(\n|\r\n|\r)", 0..20),
            size in 1_usize..7,
        ) {
            let text = lines.concat();
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            prop_assert_eq!(all(&pieces), all(&[text.as_bytes()]));
        }
    }
}
