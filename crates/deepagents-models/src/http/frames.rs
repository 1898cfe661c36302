//! Splits a streamed response into frames, whatever the framing.

use deepagents_core::model::ModelError;
use reqwest::header::{CONTENT_TYPE, HeaderMap};

use serde_json::Value;

use super::Wire;
use super::aws_events::AwsEventDecoder;
use super::error::from_stream;
use super::lines::LineDecoder;
use super::sse::SseDecoder;
use crate::decoded::Decoded;

/// A frame of a streamed response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Name of the event; empty if it has none.
    pub(crate) name: String,
    /// Data of the event.
    pub(crate) data: String,
}

/// Framing of a streamed response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value per line.
    Lines,
    /// Amazon's event stream: binary frames with checksums.
    AwsEvents,
}

impl Framing {
    /// Detects the framing of a response; `None` if it is not streamed. Some servers send no content type, or that of
    /// JSON for events, so the start of the body counts too: JSON starts with a brace or a bracket.
    pub(crate) fn detect(headers: &HeaderMap, body: &[u8]) -> Option<Self> {
        let kind = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        if kind.contains("amazon.eventstream") {
            return Some(Self::AwsEvents);
        }
        if kind.contains("event-stream") {
            return Some(Self::Sse);
        }
        if kind.contains("ndjson") || kind.contains("jsonl") {
            return Some(Self::Lines);
        }
        if body.first() == Some(&0) {
            // The length of a frame, which never reaches gigabytes.
            return Some(Self::AwsEvents);
        }
        if kind.contains("json") {
            let text = body.trim_ascii_start();
            let is_event = [&b"data:"[..], b"event:", b"id:", b":"].iter().any(|field| text.starts_with(field));
            return is_event.then_some(Self::Sse);
        }
        let first = body.iter().find(|b| !b.is_ascii_whitespace());
        first.is_some_and(|b| !matches!(b, b'{' | b'[')).then_some(Self::Sse)
    }
}

/// Splits bytes into frames as they arrive.
pub(crate) enum FrameDecoder {
    Sse(SseDecoder),
    Lines(LineDecoder),
    AwsEvents(AwsEventDecoder),
}

impl FrameDecoder {
    pub(crate) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Sse => Self::Sse(SseDecoder::default()),
            Framing::Lines => Self::Lines(LineDecoder::default()),
            Framing::AwsEvents => Self::AwsEvents(AwsEventDecoder::default()),
        }
    }

    /// Feeds more bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Sse(decoder) => decoder.push(bytes),
            Self::Lines(decoder) => decoder.push(bytes),
            Self::AwsEvents(decoder) => decoder.push(bytes),
        }
    }

    /// Marks the end of the bytes.
    pub(crate) fn end(&mut self) {
        match self {
            Self::Sse(decoder) => decoder.end(),
            Self::Lines(decoder) => decoder.end(),
            Self::AwsEvents(_) => {}
        }
    }

    /// Returns the response contained outside the frames of a stream that has ended. Some servers send a complete
    /// response, or an error, with the content type of a stream.
    pub(crate) fn outside(&mut self, wire: &dyn Wire) -> Option<Result<Decoded, ModelError>> {
        let Self::Sse(decoder) = self else { return None };
        let text = decoder.take_outside();
        // Some servers put an error where a field of the stream belongs.
        if let Some(Ok(error)) = text.strip_prefix("error:").map(|text| serde_json::from_str::<Value>(text.trim())) {
            return Some(Err(from_stream(&serde_json::json!({"error": error}))));
        }
        let value: Value =
            serde_json::from_str(&text).ok().filter(|value: &Value| value.is_object() || value.is_array())?;
        let error = |value: &Value| value.get("error").is_some_and(|error| !error.is_null());
        if error(&value) || value.get(0).is_some_and(error) {
            return Some(Err(from_stream(&value)));
        }
        (!decoder.has_events()).then(|| wire.decode(text.as_bytes()))
    }

    /// Returns the next complete frame.
    ///
    /// # Errors
    /// Returns an error if a frame is damaged, or if it reports that the call failed.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, ModelError> {
        match self {
            Self::Sse(decoder) => Ok(decoder.next()),
            Self::Lines(decoder) => Ok(decoder.next()),
            Self::AwsEvents(decoder) => decoder.next(),
        }
    }
}
