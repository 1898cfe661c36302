//! Spans that wait to be exported: so many and no more.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::Span;

/// Spans that wait, and what became of those before.
#[derive(Debug)]
pub(super) struct Queue {
    limit: usize,
    batch: usize,
    /// Who takes the spans, in words.
    receiver: String,
    inner: Mutex<Inner>,
    /// A batch is complete.
    pub(super) full: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Span>,
    /// Taken to be exported, and neither exported nor dropped yet.
    under_way: u64,
    exported: u64,
    dropped: u64,
    closed: bool,
    error: Option<String>,
    /// Why the last try failed to send what is under way.
    failing: Option<String>,
}

impl Queue {
    pub(super) fn new(limit: usize, batch: usize, receiver: String) -> Self {
        let (limit, batch) = (limit.max(1), batch.clamp(1, limit.max(1)));
        Self { limit, batch, receiver, inner: Mutex::default(), full: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts spans to the end; those for which there is no room are counted as dropped.
    pub(super) fn push(&self, spans: Vec<Span>) {
        let mut inner = self.lock();
        let before = inner.waiting.len();
        let room = if inner.closed { 0 } else { self.limit.saturating_sub(before) };
        inner.dropped += spans.len().saturating_sub(room) as u64;
        inner.waiting.extend(spans.into_iter().take(room));
        let complete = before < self.batch && inner.waiting.len() >= self.batch;
        drop(inner);
        if complete {
            self.full.notify_one();
        }
    }

    /// The next spans; none where nothing waits.
    pub(super) fn take(&self) -> Vec<Span> {
        let mut inner = self.lock();
        let count = self.batch.min(inner.waiting.len());
        inner.under_way = count as u64;
        inner.waiting.drain(..count).collect()
    }

    /// Notes why a try failed that is followed by another one.
    pub(super) fn fails(&self, why: String) {
        self.lock().failing = Some(why);
    }

    /// Counts what became of the spans that were taken; some may have been refused though the rest was exported.
    pub(super) fn settle(&self, result: Result<u64, String>) {
        let mut inner = self.lock();
        let taken = std::mem::take(&mut inner.under_way);
        inner.failing = None;
        match result {
            Ok(refused) => {
                let refused = refused.min(taken);
                inner.exported += taken - refused;
                inner.dropped += refused;
                if refused > 0 {
                    inner.error = Some(format!("the trace receiver refused {refused} spans of a request"));
                }
            }
            Err(error) => {
                inner.dropped += taken;
                inner.error = Some(error);
            }
        }
    }

    /// Counts what is left as dropped, and takes nothing any more.
    pub(super) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        let left = inner.waiting.len() as u64 + std::mem::take(&mut inner.under_way);
        inner.waiting.clear();
        inner.dropped += left;
        if left > 0 && inner.error.is_none() {
            let why = inner.failing.take().map(|why| format!(": {why}")).unwrap_or_default();
            inner.error = Some(format!("{} did not accept them before the end{why}", self.receiver));
        }
    }

    /// How many were exported and dropped, and why the last of these.
    pub(super) fn counts(&self) -> (u64, u64, Option<String>) {
        let inner = self.lock();
        (inner.exported, inner.dropped, inner.error.clone())
    }
}
