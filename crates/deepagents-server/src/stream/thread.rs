//! All runs of a thread as one stream, in the format of run streams.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Bytes;
use deepagents_core::journal::LogPosition;
use futures_core::Stream;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::event::{EventId, Kind, StreamEvent};
use super::feed::Feed;
use super::sse::{HEARTBEAT_COMMENT, HEARTBEAT_INTERVAL};
use super::v1::{Frame, Writer, is_after};
use crate::runs::LiveRun;

/// What is streamed of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ThreadStreamMode {
    /// The streams of its runs.
    RunModes,
    /// Notices that a run begins or is done.
    Lifecycle,
    /// State updates by clients.
    StateUpdate,
}

/// A state update of a thread by a client.
#[derive(Debug)]
pub(crate) struct StateUpdate {
    pub(crate) thread: String,
    /// The end of the log after the update.
    pub(crate) end: LogPosition,
    pub(crate) state: Value,
}

/// The run being written and its writer.
struct Writing {
    run: String,
    writer: Writer,
}

/// The stream of one client.
struct Reader {
    feed: Feed,
    updates: Receiver<Arc<StateUpdate>>,
    modes: Vec<ThreadStreamMode>,
    after: Option<(EventId, usize)>,
    writing: Option<Writing>,
}

/// Streams the events of each run, in the modes that the run was created with, and a notice when it is done. State
/// updates are those made from now on in this process.
pub(crate) fn all_runs(
    feed: Feed,
    updates: Receiver<Arc<StateUpdate>>,
    modes: Vec<ThreadStreamMode>,
    after: Option<(EventId, usize)>,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let reader = Reader { feed, updates, modes, after, writing: None };
    stream::unfold(reader, |mut reader| async move { Some((Ok(reader.next().await?), reader)) })
}

impl Reader {
    fn wants(&self, mode: ThreadStreamMode) -> bool {
        self.modes.contains(&mode)
    }

    /// Returns the next bytes to send, or `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let text = tokio::select! {
                () = tokio::time::sleep(HEARTBEAT_INTERVAL) => return Some(Bytes::from_static(HEARTBEAT_COMMENT)),
                update = self.updates.recv(), if self.wants(ThreadStreamMode::StateUpdate) => self.updated(update).await?,
                next = self.feed.next() => {
                    let (run, event) = next?;
                    self.write_event(&run, &event)
                }
            };
            if !text.is_empty() {
                return Some(Bytes::from(text));
            }
        }
    }

    /// Returns the text of a state update, or `None` if the thread belongs to somebody else by now.
    async fn updated(&self, update: Result<Arc<StateUpdate>, RecvError>) -> Option<String> {
        let Some(update) = update.ok().filter(|update| update.thread == self.feed.thread) else {
            return Some(String::new());
        };
        if !self.feed.is_readable().await {
            return None;
        }
        let data = json!({"state": update.state, "thread_id": update.thread}).to_string();
        let id = EventId { position: update.end, number: EventId::LAST }.to_text(0);
        Some(Frame { id, event: "state_update".to_owned(), data }.text(true))
    }

    fn write_event(&mut self, run: &Arc<LiveRun>, event: &StreamEvent) -> String {
        let (all, after) = (self.wants(ThreadStreamMode::RunModes), self.after);
        let current = match &mut self.writing {
            Some(current) if current.run == run.id => current,
            writing => {
                let create = run.record().kwargs;
                let writer = Writer::new(run.identity.clone(), create.modes(), create.stream_subgraphs);
                writing.insert(Writing { run: run.id.clone(), writer })
            }
        };
        if !all && !self.modes.contains(&ThreadStreamMode::Lifecycle) {
            return String::new();
        }
        let frames = current.writer.write(event).unwrap_or_default();
        let wanted = frames.iter().filter(|frame| is_after(frame, event.id, after));
        let wanted = wanted.filter(|frame| all || frame.event == "metadata");
        let mut text: String = wanted.map(|frame| frame.text(true)).collect();
        if matches!(event.kind, Kind::RunEnded(_)) && after.is_none_or(|(last, _)| event.id > last) {
            let data = json!({"status": "run_done", "run_id": run.id}).to_string();
            let done = Frame { id: event.id.to_text(0), event: "metadata".to_owned(), data };
            text.push_str(&done.text(true));
        }
        text
    }
}
