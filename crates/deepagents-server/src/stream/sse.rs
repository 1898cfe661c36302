//! Events as a body of `text/event-stream`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_core::Stream;
use futures_util::stream;

use super::log::{Next, Part};
use crate::runs::{LiveRun, StreamMode};

/// So often something is sent although nothing happens, so that nobody between takes the connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Ends a run when its client leaves.
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

/// The events of a run from a place on, of some modes or of all.
pub(crate) fn body(
    run: Arc<LiveRun>,
    from: usize,
    modes: Option<Vec<StreamMode>>,
    with_ids: bool,
    leaving: Option<Leaving>,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let changed = run.log.watch();
    let begin = (run, from, changed, leaving);
    stream::unfold(begin, move |(run, mut at, mut changed, leaving)| {
        let modes = modes.clone();
        async move {
            loop {
                changed.borrow_and_update();
                match run.log.next(at) {
                    Next::Part(part) => {
                        at += 1;
                        let wanted =
                            modes.as_ref().is_none_or(|modes| part.mode.is_none_or(|mode| modes.contains(&mode)));
                        if wanted && !part.data.is_empty() {
                            let bytes = frame(&part, with_ids);
                            return Some((Ok(bytes), (run, at, changed, leaving)));
                        }
                    }
                    Next::End => return None,
                    Next::Wait => {
                        if tokio::time::timeout(HEARTBEAT, changed.changed()).await.is_err() {
                            return Some((Ok(Bytes::from_static(b": heartbeat\n\n")), (run, at, changed, leaving)));
                        }
                    }
                }
            }
        }
    })
}

fn frame(part: &Part, with_ids: bool) -> Bytes {
    let Part { id, event, data, .. } = part;
    let id = if with_ids { format!("id: {id}\n") } else { String::new() };
    Bytes::from(format!("event: {event}\ndata: {data}\n{id}\n"))
}
