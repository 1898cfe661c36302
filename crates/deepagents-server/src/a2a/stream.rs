//! A task as a stream of results.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures_util::stream;
use serde_json::{Value, json};

use super::record::TaskRecord;
use super::version::Version;
use super::view::{Answer, TaskView};
use crate::app::App;
use crate::error::Result;
use crate::rpc;
use crate::stream::{EventCursor, HEARTBEAT_COMMENT, HEARTBEAT_INTERVAL};

/// A client's position in a task.
struct Reader {
    app: Arc<App>,
    task: TaskRecord,
    id: Value,
    version: Version,
    /// Sent before anything else.
    first: Option<Value>,
    live: Option<EventCursor>,
    answer: Answer,
    is_over: bool,
}

/// Streams the current task, then its updates, and finally its end state.
pub(super) async fn of(app: &Arc<App>, task: TaskRecord, id: Value, version: Version) -> Result<Body> {
    let mut answer = Answer::default();
    let live = task.live(app).await?.map(|run| answer.read(run));
    let mut first = TaskView::read(app, &task).await?;
    let is_over = first.is_over();
    if !is_over && live.is_some() {
        // Text after this point is sent as pieces.
        first.cut_to(&answer);
    }
    let first = Some(first.task(None));
    let reader = Reader { app: app.clone(), task, id, version, first, live, answer, is_over };
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
        while let Some(events) = &mut self.live {
            match tokio::time::timeout(HEARTBEAT_INTERVAL, events.next()).await {
                Err(_) => return Some(Bytes::from_static(HEARTBEAT_COMMENT)),
                Ok(Some(event)) => {
                    if let Some(text) = self.answer.take(&event) {
                        let piece = self.chunk(&text);
                        return Some(self.event(piece));
                    }
                }
                Ok(None) => {
                    events.run.ended().await;
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
