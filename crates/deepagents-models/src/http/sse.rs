//! Incremental decoder for server-sent events.

use super::frames::Frame;
use super::lines::{LineEnd, Lines};

/// Splits a byte stream into events.
///
/// Unlike a browser, it returns a last event without its blank line, since some servers close right after it.
#[derive(Debug)]
pub(super) struct SseDecoder {
    pub(super) lines: Lines,
    pub(super) fields: Fields,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self { lines: Lines::new(LineEnd::Any), fields: Fields::default() }
    }
}

/// What was read of the stream.
#[derive(Debug, Default)]
pub(super) struct Fields {
    event: Frame,
    has_data: bool,
    /// Whether there has been an event.
    pub(super) has_events: bool,
    /// Lines that do not belong to an event.
    pub(super) outside: String,
}

/// Maximum number of bytes kept of those lines.
const MAX_OUTSIDE_BYTES: usize = 16 << 20;

impl SseDecoder {
    /// Returns the next complete event.
    pub(super) fn next(&mut self) -> Option<Frame> {
        while let Some(line) = self.lines.next() {
            if !line.is_empty() {
                self.fields.add(&line);
            } else if let Some(event) = self.fields.dispatch() {
                return Some(event);
            }
        }
        if self.lines.has_ended() { self.fields.dispatch() } else { None }
    }
}

impl Fields {
    fn add(&mut self, line: &str) {
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
            decoder.lines.push(piece);
            out.extend(std::iter::from_fn(|| decoder.next()));
        }
        decoder.lines.end();
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
