//! Server-sent event streams, whose messages are parsed as leniently as those of programs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use hyper::body::Bytes;
use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};

use crate::stdio::message;
use crate::sync::lock;

/// Maximum number of requests whose streams can be resumed.
const MAX_STREAMS: usize = 256;

/// Why a stream ended early.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Connection(#[from] reqwest::Error),
    #[error("it is longer than {} MiB", .0 >> 20)]
    TooLong(usize),
}

/// The streams of a connection: the ID of the last event received for each request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Arc<Mutex<VecDeque<(RequestId, String)>>>);

type Events = BoxStream<'static, Result<Sse, SseError>>;

impl Streams {
    /// Returns the request whose stream broke off after this event.
    pub(super) fn request_behind(&self, event: &str) -> Option<RequestId> {
        lock(&self.0).iter().find(|(_, last)| last == event).map(|(request, _)| request.clone())
    }

    fn note(&self, request: &RequestId, event: Option<&str>) {
        let mut last = lock(&self.0);
        last.retain(|(known, _)| known != request);
        if let Some(event) = event {
            last.push_back((request.clone(), event.to_owned()));
        }
        if last.len() > MAX_STREAMS {
            last.pop_front();
        }
    }

    /// Returns the events of a response, with malformed messages repaired. An event of more than `most` bytes becomes
    /// an error response to the request.
    pub(super) fn of_answer(
        &self,
        bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
        most: usize,
        asked: Option<RequestId>,
    ) -> Events {
        let mut length = Length::default();
        let bounded = bytes.map(move |piece| {
            let piece = piece?;
            if length.push(&piece) > most { Err(Broken::TooLong(most)) } else { Ok(piece) }
        });
        let streams = self.clone();
        let mended = SseStream::from_bytes_stream(bounded).flat_map(move |event| {
            let event = match (event, &asked) {
                (Ok(event), _) => event,
                (Err(error), Some(asked)) if is_too_long(&error) => {
                    streams.note(asked, None);
                    let told = message::unreadable(asked.clone(), &error.to_string());
                    return stream::iter(vec![Ok(self::event(&told))]);
                }
                (Err(error), _) => return stream::iter(vec![Err(error)]),
            };
            if let (Some(asked), Some(id)) = (&asked, &event.id) {
                streams.note(asked, Some(id));
            }
            let (events, is_answer) = messages(event, asked.as_ref());
            if let Some(asked) = asked.as_ref().filter(|_| is_answer) {
                streams.note(asked, None);
            }
            stream::iter(events.into_iter().map(Ok).collect::<Vec<_>>())
        });
        mended.boxed()
    }

    /// Returns a stream with an error response, for a stream that the server no longer has.
    pub(super) fn lost(&self, asked: RequestId) -> Events {
        self.note(&asked, None);
        let words = "its result was lost: the stream broke off, and the server no longer knows it; whether the \
            request had an effect is not known";
        let error = JsonRpcMessage::error(ErrorData::new(ErrorCode::INTERNAL_ERROR, words, None), Some(asked));
        stream::iter([Ok(event(&error))]).boxed()
    }
}

/// Whether a stream broke off because an event is too long.
pub(super) fn is_too_long(error: &SseError) -> bool {
    matches!(error, SseError::Body(error) if matches!(error.downcast_ref(), Some(Broken::TooLong(_))))
}

/// Converts a message to an event.
pub(super) fn event(message: &ServerJsonRpcMessage) -> Sse {
    // Cannot fail: the message was parsed from JSON.
    Sse::default().data(serde_json::to_string(message).unwrap_or_default())
}

/// Returns the events that replace an event, usually the event itself, and whether one of them answers the request.
fn messages(event: Sse, asked: Option<&RequestId>) -> (Vec<Sse>, bool) {
    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
    let Some(data) = event.data.as_deref().filter(|data| is_message && !data.trim().is_empty()) else {
        return (vec![event], false);
    };
    let answers = |message: &ServerJsonRpcMessage| asked.is_some() && answered(message) == asked;
    let as_it_is = serde_json::from_str::<ServerJsonRpcMessage>(data).ok();
    if let Some(message) = as_it_is.filter(|message| !matches!(answered(message), Some(RequestId::String(_)))) {
        return (vec![event], answers(&message));
    }
    let messages = message::read(data.as_bytes());
    let is_answer = messages.iter().any(answers);
    let mut events: Vec<Sse> = messages.iter().map(self::event).collect();
    // The event ID and retry delay come last, so that a resumed stream starts after these messages.
    events.push(Sse { data: None, ..event });
    (events, is_answer)
}

/// Returns the request that a message answers.
fn answered(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

/// Counts the bytes of the current event.
#[derive(Default)]
struct Length {
    bytes: usize,
    /// The line terminator, if a line has just ended.
    ended: Option<u8>,
}

impl Length {
    /// Counts bytes. Returns the largest size that an event reached among them.
    fn push(&mut self, bytes: &[u8]) -> usize {
        let mut longest = self.bytes;
        for byte in bytes {
            match (byte, self.ended) {
                // The second byte of a CRLF.
                (b'\n', Some(b'\r')) => self.ended = Some(b'\n'),
                (b'\r' | b'\n', ended) => {
                    // An empty line ends an event.
                    self.bytes = if ended.is_some() { 0 } else { self.bytes };
                    self.ended = Some(*byte);
                }
                _ => {
                    self.ended = None;
                    self.bytes += 1;
                    longest = longest.max(self.bytes);
                }
            }
        }
        longest
    }
}
