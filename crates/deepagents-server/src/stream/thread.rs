//! All runs of a thread as one stream, in the form of streams of runs.

use std::convert::Infallible;

use axum::body::Bytes;
use futures_core::Stream;
use futures_util::stream;
use serde_json::json;

use super::event::{EventId, Kind};
use super::feed::Feed;
use super::sse::{HEARTBEAT, HEARTBEAT_COMMENT};
use super::v1::{Writer, is_after};

/// The run that is being written.
struct Writing {
    run: String,
    writer: Writer,
}

/// The events of each run as it asked for them, and a note when it is done.
pub(crate) fn all_runs(
    feed: Feed,
    after: Option<(EventId, usize)>,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    stream::unfold((feed, None), move |(mut feed, mut writing)| async move {
        let bytes = next(&mut feed, &mut writing, after).await?;
        Some((Ok(bytes), (feed, writing)))
    })
}

async fn next(feed: &mut Feed, writing: &mut Option<Writing>, after: Option<(EventId, usize)>) -> Option<Bytes> {
    loop {
        let Ok(next) = tokio::time::timeout(HEARTBEAT, feed.next()).await else {
            return Some(Bytes::from_static(HEARTBEAT_COMMENT));
        };
        let (run, event) = next?;
        let current = match writing {
            Some(current) if current.run == run.id => current,
            _ => {
                let create = run.record().kwargs;
                let writer = Writer::new(run.identity.clone(), create.modes(), create.stream_subgraphs);
                writing.insert(Writing { run: run.id.clone(), writer })
            }
        };
        let frames = current.writer.write(&event).unwrap_or_default();
        let wanted = frames.iter().filter(|frame| is_after(frame, event.id, after));
        let mut text: String =
            wanted.map(|frame| format!("event: {}\ndata: {}\nid: {}\n\n", frame.event, frame.data, frame.id)).collect();
        if matches!(event.kind, Kind::RunEnded(_)) && after.is_none_or(|(last, _)| event.id > last) {
            let done = json!({"status": "run_done", "run_id": run.id});
            text.push_str(&format!("event: metadata\ndata: {done}\nid: {}\n\n", event.id.to_text(0)));
        }
        if !text.is_empty() {
            return Some(Bytes::from(text));
        }
    }
}
