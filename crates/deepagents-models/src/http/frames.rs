//! Splits a streamed response into frames, whatever the framing.

use deepagents_core::model::ModelError;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::AnswerDecoder;
use super::aws_events::AwsEventDecoder;
use super::error::{from_stream, header};
use super::lines::{LineEnd, Lines};
use super::sse::{Fields, SseDecoder};
use crate::decoded::Decoded;
use crate::json::is_given;

/// A frame of a streamed response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Name of the event; empty if it has none.
    pub(crate) name: String,
    /// Data of the event.
    pub(crate) data: String,
}

/// Splits a streamed response into frames as it arrives.
pub(super) enum FrameDecoder {
    /// Server-sent events.
    Sse(SseDecoder),
    /// One JSON value per line.
    Lines(Lines),
    /// Amazon's event stream: binary frames with checksums.
    AwsEvents(AwsEventDecoder),
}

impl FrameDecoder {
    /// Detects the framing of a response; `None` if it is not streamed. Some servers send no content type, or that of
    /// JSON for events, so the start of the body counts too: JSON starts with a brace or a bracket.
    pub(super) fn detect(headers: &HeaderMap, body: &[u8]) -> Option<Self> {
        let kind = header(headers, "content-type").unwrap_or_default();
        // A frame begins with its length, which never reaches gigabytes.
        let is_frame = kind.contains("amazon.eventstream") || body.first() == Some(&0);
        if kind.contains("event-stream") {
            return Some(Self::Sse(SseDecoder::default()));
        }
        if kind.contains("ndjson") || kind.contains("jsonl") {
            return Some(Self::Lines(Lines::new(LineEnd::LineFeed)));
        }
        if is_frame {
            return Some(Self::AwsEvents(AwsEventDecoder::default()));
        }
        let text = body.trim_ascii_start();
        let is_sse = if kind.contains("json") {
            [&b"data:"[..], b"event:", b"id:", b":"].iter().any(|field| text.starts_with(field))
        } else {
            text.first().is_some_and(|first| !matches!(first, b'{' | b'['))
        };
        is_sse.then(|| Self::Sse(SseDecoder::default()))
    }

    /// Feeds more bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Sse(SseDecoder { lines, .. }) | Self::Lines(lines) => lines.push(bytes),
            Self::AwsEvents(decoder) => decoder.push(bytes),
        }
    }

    /// Marks the end of the bytes.
    pub(super) fn end(&mut self) {
        if let Self::Sse(SseDecoder { lines, .. }) | Self::Lines(lines) = self {
            lines.end();
        }
    }

    /// Returns the response contained outside the frames of a stream that has ended. Some servers send a complete
    /// response, or an error, with the content type of a stream.
    pub(super) fn outside(&mut self, answer: &mut dyn AnswerDecoder) -> Option<Result<Decoded, ModelError>> {
        let Self::Sse(SseDecoder { fields: Fields { outside: text, has_events, .. }, .. }) = self else { return None };
        // Some servers put an error where a field of the stream belongs.
        if let Some(Ok(error)) = text.strip_prefix("error:").map(|text| serde_json::from_str::<Value>(text.trim())) {
            return Some(Err(from_stream(&serde_json::json!({"error": error}))));
        }
        let value: Value =
            serde_json::from_str(text).ok().filter(|value: &Value| value.is_object() || value.is_array())?;
        if is_given(value.get("error")) || is_given(value.get(0).and_then(|first| first.get("error"))) {
            return Some(Err(from_stream(&value)));
        }
        (!*has_events).then(|| answer.whole(text.as_bytes()))
    }

    /// Returns the next complete frame.
    ///
    /// # Errors
    /// Returns an error if a frame is damaged, or if it reports that the call failed.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, ModelError> {
        match self {
            Self::Sse(decoder) => Ok(decoder.next()),
            Self::Lines(lines) => loop {
                match lines.next().as_deref().map(str::trim) {
                    None => return Ok(None),
                    Some("") => {}
                    Some(line) => return Ok(Some(Frame { name: String::new(), data: line.to_owned() })),
                }
            },
            Self::AwsEvents(decoder) => decoder.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_complete_however_they_are_chunked_and_only_a_line_feed_ends_one() {
        let text = "{\"a\":1}\r\n\n{\"b\":\r\"é\"}\n{\"c\":3}".as_bytes();
        for size in 1..text.len() {
            let (mut decoder, mut lines) = (FrameDecoder::Lines(Lines::new(LineEnd::LineFeed)), Vec::new());
            for piece in text.chunks(size) {
                decoder.push(piece);
                lines.extend(std::iter::from_fn(|| decoder.next().unwrap()).map(|frame| frame.data));
            }
            decoder.end();
            lines.extend(std::iter::from_fn(|| decoder.next().unwrap()).map(|frame| frame.data));
            assert_eq!(lines, ["{\"a\":1}", "{\"b\":\r\"é\"}", "{\"c\":3}"]);
        }
    }
}
