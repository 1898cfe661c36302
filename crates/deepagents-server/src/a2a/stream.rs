//! A task as a stream of results.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::record::TaskRecord;
use super::version::Version;
use super::view::{Answer, TaskView};
use crate::app::App;
use crate::error::Result;
use crate::rpc;
use crate::runs::LiveRun;
use crate::stream::{HEARTBEAT_COMMENT, HEARTBEAT_INTERVAL, Next};

/// A client's position in a task.
struct Reader {
    app: Arc<App>,
    task: TaskRecord,
    id: Value,
    version: Version,
    /// Sent before anything else.
    first: Option<Value>,
    live: Option<(Arc<LiveRun>, watch::Receiver<usize>)>,
    at: usize,
    answer: Answer,
    is_over: bool,
}

/// Streams the current task, then its updates, and finally its end state.
pub(super) async fn of(app: &Arc<App>, task: TaskRecord, id: Value, version: Version) -> Result<Body> {
    let live = task.live(app).await?;
    let mut answer = Answer::default();
    let at = live.as_ref().map_or(0, |run| answer.read(run));
    let mut first = TaskView::read(app, &task).await?;
    let is_over = first.is_over();
    if !is_over && live.is_some() {
        // Text after this point is sent as pieces.
        first.cut_to(&answer);
    }
    let live = live.map(|run| {
        let changed = run.log.watch();
        (run, changed)
    });
    let first = Some(first.task(None));
    let reader = Reader { app: app.clone(), task, id, version, first, live, at, answer, is_over };
    let bytes = stream::unfold(reader, |mut reader| async move {
        let bytes = reader.next().await?;
        Some((Ok::<_, Infallible>(bytes), reader))
    });
    Ok(Body::from_stream(bytes))
}

impl Reader {
    fn event(&self, result: Value) -> Bytes {
        Bytes::from(format!("data: {}\n\n", rpc::answer(&self.id, Ok(self.version.result(result)))))
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(self.event(first));
        }
        if self.is_over {
            return None;
        }
        while let Some((run, changed)) = &mut self.live {
            changed.borrow_and_update();
            match run.log.next(self.at) {
                Next::Event(event) => {
                    self.at += 1;
                    if let Some(text) = self.answer.take(&event) {
                        let piece = self.chunk(&text);
                        return Some(self.event(piece));
                    }
                }
                Next::Gone => self.at += 1,
                Next::Wait => {
                    if tokio::time::timeout(HEARTBEAT_INTERVAL, changed.changed()).await.is_err() {
                        return Some(Bytes::from_static(HEARTBEAT_COMMENT));
                    }
                }
                Next::End => {
                    run.ended().await;
                    self.live = None;
                }
            }
        }
        self.is_over = true;
        // If the task cannot be read now, the stream ends without a final event and the client queries the task.
        let last = TaskView::read(&self.app, &self.task).await.ok()?;
        Some(self.event(last.update()))
    }

    fn chunk(&self, text: &str) -> Value {
        json!({
            "kind": "artifact-update", "taskId": self.task.id, "contextId": self.task.thread,
            "artifact": self.answer.artifact(text), "append": !self.answer.is_new, "lastChunk": false,
        })
    }
}
