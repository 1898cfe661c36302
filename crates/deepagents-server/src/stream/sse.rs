//! Events as a `text/event-stream` body.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_core::Stream;
use futures_util::stream;

use super::event::{EventId, Kind, StreamEvent};
use super::log::EventCursor;
use super::v1::{Writer, is_after};
use crate::runs::{CancelAction, LiveRun};

/// Interval of heartbeats on an idle stream, so that proxies do not close the connection.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Headers of a stream of events, which no proxy may collect or store.
pub(crate) const STREAM_HEADERS: [(&str, &str); 3] =
    [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-store"), ("x-accel-buffering", "no")];

/// The bytes of a heartbeat.
pub(crate) const HEARTBEAT_COMMENT: &[u8] = b": heartbeat\n\n";

/// Size from which an event is large.
const LARGE_BYTES: usize = 64 << 10;

/// A guard that ends a run when its client disconnects.
pub(crate) struct Leaving(Arc<LiveRun>);

impl Leaving {
    pub(crate) fn new(run: Arc<LiveRun>) -> Self {
        Self(run)
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.end(CancelAction::Interrupt);
    }
}

/// Where a client starts reading.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    Start,
    /// After a part of an event.
    After(EventId, usize),
    /// At the next event.
    Now,
}

/// The stream of one run to one client.
pub(crate) struct Reader {
    events: EventCursor,
    after: Option<(EventId, usize)>,
    writer: Writer,
    with_ids: bool,
    _leaving: Option<Leaving>,
}

impl Reader {
    pub(crate) fn new(run: Arc<LiveRun>, from: From, writer: Writer, with_ids: bool, leaving: Option<Leaving>) -> Self {
        let (at, after) = match from {
            From::Start => (0, None),
            From::After(id, part) => (run.log.from(id), Some((id, part))),
            From::Now => (run.log.end(), None),
        };
        Self { events: EventCursor::new(run, at), after, writer, with_ids, _leaving: leaving }
    }

    /// Returns the next bytes to send, or `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let Ok(event) = tokio::time::timeout(HEARTBEAT_INTERVAL, self.events.next()).await else {
                return Some(Bytes::from_static(HEARTBEAT_COMMENT));
            };
            let event = event?;
            let frames = self.writer.write(&event).or_else(|error| {
                let kind = Kind::Failed { kind: "stream".to_owned(), message: error.to_string() };
                let failed = StreamEvent { id: event.id, at: event.at, agent: Arc::default(), step: 0, kind };
                self.writer.write(&failed)
            });
            let frames = frames.unwrap_or_default();
            let wanted = frames.iter().filter(|frame| is_after(frame, event.id, self.after));
            let text: String = wanted.map(|frame| frame.text(self.with_ids)).collect();
            if text.len() >= LARGE_BYTES {
                // Writing many large states must not hold up other requests.
                tokio::task::yield_now().await;
            }
            if !text.is_empty() {
                return Some(Bytes::from(text));
            }
        }
    }

    /// Returns the whole stream as a response body.
    pub(crate) fn body(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        stream::unfold(self, |mut reader| async move { reader.next().await.map(|bytes| (Ok(bytes), reader)) })
    }
}
