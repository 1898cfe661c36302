//! The bounded queue of spans to export.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::Span;

/// The queued spans, and counts of those exported and dropped.
#[derive(Debug)]
pub(super) struct Queue {
    limit: usize,
    batch: usize,
    /// A description of the destination.
    receiver: String,
    inner: Mutex<Inner>,
    /// Notified when a batch is complete.
    pub(super) full: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Span>,
    /// Spans in flight: taken, but neither exported nor dropped yet.
    under_way: u64,
    exported: u64,
    dropped: u64,
    closed: bool,
    error: Option<String>,
    /// Why the last attempt to send the spans in flight failed.
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

    /// Appends spans. Those for which there is no room are dropped and counted.
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

    /// Takes the next batch, which is empty if no spans are queued.
    pub(super) fn take(&self) -> Vec<Span> {
        let mut inner = self.lock();
        let count = self.batch.min(inner.waiting.len());
        inner.under_way = count as u64;
        inner.waiting.drain(..count).collect()
    }

    /// Records why an attempt failed that will be retried.
    pub(super) fn record_retry(&self, why: String) {
        self.lock().failing = Some(why);
    }

    /// Counts the outcome of the spans in flight. The receiver may have rejected some of them.
    pub(super) fn record_outcome(&self, result: Result<u64, String>) {
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

    /// Counts the remaining spans as dropped and closes the queue.
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

    /// Returns the numbers of exported and dropped spans, and the last error.
    pub(super) fn counts(&self) -> (u64, u64, Option<String>) {
        let inner = self.lock();
        (inner.exported, inner.dropped, inner.error.clone())
    }
}
