//! A parser for `text/event-stream`.

/// Maximum bytes of an event.
const MAX_EVENT_BYTES: usize = 32 << 20;

/// An event as received.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    pub(crate) name: String,
    pub(crate) data: String,
    pub(crate) id: Option<String>,
}

/// Parses bytes as they arrive, and returns complete events.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    /// Whether the last byte was a carriage return, so that a following line feed belongs to it.
    after_return: bool,
}

/// Reports an event that exceeds the maximum size.
#[derive(Debug, thiserror::Error)]
#[error("an event has more than {MAX_EVENT_BYTES} bytes")]
pub(crate) struct TooLong;

impl SseReader {
    /// Returns the events that these bytes complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, TooLong> {
        let mut out = Vec::new();
        for &byte in bytes {
            let follows_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if follows_return => {}
                b'\n' | b'\r' => {
                    self.after_return = byte == b'\r';
                    out.extend(self.end_of_line());
                }
                other => self.line.push(other),
            }
            if self.line.len() + self.event.data.len() > MAX_EVENT_BYTES {
                return Err(TooLong);
            }
        }
        Ok(out)
    }

    fn end_of_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let text = String::from_utf8_lossy(&line);
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "id" if !value.is_empty() => self.event.id = Some(value.to_owned()),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parts: &[&[u8]]) -> Vec<(String, String, Option<String>)> {
        let mut reader = SseReader::default();
        let events = parts.iter().flat_map(|part| reader.push(part).unwrap());
        events.map(|event| (event.name, event.data, event.id)).collect()
    }

    #[test]
    fn events_are_parsed_whatever_the_chunks_and_line_endings() {
        let text = "event: values\r\ndata: {\"a\":\r\ndata: 1}\r\nid: 7\r\n\r\n: heartbeat\n\ndata:ä\n\n".as_bytes();
        let wanted = vec![("values".into(), "{\"a\":\n1}".into(), Some("7".into())), (String::new(), "ä".into(), None)];
        assert_eq!(read(&[text]), wanted);
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(read(&bytes), wanted);
    }

    #[test]
    fn an_incomplete_event_is_ignored_and_an_endless_one_is_an_error() {
        assert_eq!(read(&[b"event: values\ndata: {}\n"]), []);
        let mut reader = SseReader::default();
        let long = vec![b'x'; MAX_EVENT_BYTES / 2 + 1];
        assert!(reader.push(&long).is_ok());
        assert!(reader.push(&long).is_err());
    }
}
