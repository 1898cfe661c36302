//! Events as a `text/event-stream` body.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_core::Stream;
use futures_util::stream;
use tokio::sync::watch;

use super::event::{EventId, Kind};
use super::log::Next;
use super::v1::{Frame, Writer, is_after};
use crate::runs::LiveRun;

/// Interval of heartbeats on an idle stream, so that proxies do not close the connection.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// The bytes of a heartbeat.
pub(crate) const HEARTBEAT_COMMENT: &[u8] = b": heartbeat\n\n";

/// A guard that ends a run when its client disconnects.
pub(crate) struct Leaving(Arc<LiveRun>);

impl Leaving {
    pub(crate) fn new(run: Arc<LiveRun>) -> Self {
        Self(run)
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.interrupt();
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
    run: Arc<LiveRun>,
    at: usize,
    after: Option<(EventId, usize)>,
    writer: Writer,
    with_ids: bool,
    changed: watch::Receiver<usize>,
    _leaving: Option<Leaving>,
}

impl Reader {
    pub(crate) fn new(run: Arc<LiveRun>, from: From, writer: Writer, with_ids: bool, leaving: Option<Leaving>) -> Self {
        let (at, after) = match from {
            From::Start => (0, None),
            From::After(id, part) => (run.log.from(id), Some((id, part))),
            From::Now => (run.log.end(), None),
        };
        let changed = run.log.watch();
        Self { run, at, after, writer, with_ids, changed, _leaving: leaving }
    }

    /// Returns the next bytes to send, or `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            self.changed.borrow_and_update();
            match self.run.log.next(self.at) {
                Next::Event(event) => {
                    self.at += 1;
                    let frames = match self.writer.write(&event) {
                        Ok(frames) => frames,
                        Err(error) => {
                            let kind = Kind::Failed { kind: "stream".to_owned(), message: error.to_string() };
                            let failed = super::event::StreamEvent {
                                id: event.id,
                                at: event.at,
                                agent: Arc::default(),
                                step: 0,
                                kind,
                            };
                            self.writer.write(&failed).unwrap_or_default()
                        }
                    };
                    let after = self.after;
                    let wanted = frames.iter().filter(|frame| is_after(frame, event.id, after));
                    let text: String = wanted.map(|frame| self.text(frame)).collect();
                    if !text.is_empty() {
                        return Some(Bytes::from(text));
                    }
                }
                Next::Gone => self.at += 1,
                Next::End => return None,
                Next::Wait => {
                    if tokio::time::timeout(HEARTBEAT_INTERVAL, self.changed.changed()).await.is_err() {
                        return Some(Bytes::from_static(HEARTBEAT_COMMENT));
                    }
                }
            }
        }
    }

    fn text(&self, frame: &Frame) -> String {
        let Frame { id, event, data } = frame;
        let id = if self.with_ids { format!("id: {id}\n") } else { String::new() };
        format!("event: {event}\ndata: {data}\n{id}\n")
    }

    /// Returns the whole stream as a response body.
    pub(crate) fn body(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        stream::unfold(self, |mut reader| async move { reader.next().await.map(|bytes| (Ok(bytes), reader)) })
    }
}
