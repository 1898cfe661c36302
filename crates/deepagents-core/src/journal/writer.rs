//! The writer shared by all agents of a run. Concurrent writes are appended together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::lease::{Lease, Lost};
use super::unfinished::Unfinished;
use super::{Appended, Fence, Journal, JournalError, Record, Replay, load_replay};
use crate::ids::{LogPosition, ThreadId};
use crate::panics::lock;
use crate::state::Schema;

/// Pauses before an append is retried.
const INITIAL_RETRY_DELAY: Duration = Duration::from_millis(20);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Appends the records of a run's agents to their thread, in the order in which they are handed over.
///
/// If no append is in progress, the caller appends directly, without another task. Records that arrive meanwhile are
/// appended together right after. An append that has started completes even if its caller is dropped, so that the end
/// of the log stays known.
#[derive(Clone)]
pub(crate) struct LogWriter {
    writing: Arc<Writing>,
}

struct Writing {
    journal: Arc<dyn Journal>,
    thread: ThreadId,
    fence: Fence,
    lease: Duration,
    lost: Arc<Lost>,
    queue: Mutex<Queue>,
    bytes: AtomicU64,
}

struct Queue {
    waiting: Vec<Append>,
    /// Whether an append is in progress.
    busy: bool,
    /// Whether an append has failed. Later records would depend on lost ones.
    failed: bool,
    end: LogPosition,
}

struct Append {
    records: Vec<Record>,
    done: oneshot::Sender<Result<LogPosition, JournalError>>,
}

impl LogWriter {
    /// Creates a writer for the owner of a thread whose log ends at `end`.
    ///
    /// While the journal reports that it is temporarily unavailable, appends are retried for as long as the lease may
    /// last. Once the thread is lost, nothing more is written, because an end caused by the loss must not be recorded
    /// as the end of the run.
    pub(crate) fn new(lease: &Lease, end: LogPosition) -> Self {
        let queue = Mutex::new(Queue { waiting: Vec::new(), busy: false, failed: false, end });
        let writing = Writing {
            journal: lease.journal().clone(),
            thread: lease.thread().to_owned(),
            fence: lease.fence(),
            lease: lease.duration,
            lost: lease.lost.clone(),
            queue,
            bytes: AtomicU64::new(0),
        };
        Self { writing: Arc::new(writing) }
    }

    /// Returns why the thread is lost, if it is.
    pub(crate) fn why_lost(&self) -> Option<JournalError> {
        self.writing.lost.reason()
    }

    /// Appends records and returns the position after them.
    ///
    /// # Errors
    /// Returns an error if they cannot be appended, or an earlier append failed.
    pub(crate) async fn append(&self, records: Vec<Record>) -> Result<LogPosition, JournalError> {
        let appended = {
            let mut queue = lock(&self.writing.queue);
            if queue.failed {
                return Err(failed_before());
            }
            if queue.busy {
                let (done, appended) = oneshot::channel();
                queue.waiting.push(Append { records, done });
                Err(appended)
            } else {
                queue.busy = true;
                Ok(records)
            }
        };
        match appended {
            Ok(records) => Unfinished::new(self.writing.clone().write(records)).await,
            Err(appended) => appended.await.unwrap_or_else(|_| Err(failed_before())),
        }
    }

    /// Replays the thread, including all records handed over before, for an agent with these channels.
    ///
    /// # Errors
    /// Returns an error if an append failed, or the log cannot be read.
    pub(crate) async fn replay(&self, schema: Arc<Schema>) -> Result<Replay, JournalError> {
        // An empty append waits for everything in progress.
        self.append(Vec::new()).await?;
        Ok(load_replay(&*self.writing.journal, &self.writing.thread, schema, None).await?.replay)
    }

    /// Returns the bytes taken by all appends of this writer.
    pub(crate) fn bytes(&self) -> u64 {
        self.writing.bytes.load(Ordering::Relaxed)
    }
}

fn failed_before() -> JournalError {
    JournalError::Storage("an earlier append to the log failed".into())
}

impl Writing {
    /// Appends records, and then starts a task for those that arrived meanwhile.
    async fn write(self: Arc<Self>, records: Vec<Record>) -> Result<LogPosition, JournalError> {
        let count = records.len();
        let turn = Turn { writing: self.clone(), is_over: false };
        let start = lock(&self.queue).end;
        let appended = self.append(start, records).await;
        let waiting = turn.over(&appended);
        if !waiting.is_empty() {
            tokio::spawn(self.write_waiting(waiting));
        }
        appended.map(|_| start + count as LogPosition)
    }

    /// Appends the waiting records in batches until none are left.
    async fn write_waiting(self: Arc<Self>, mut waiting: Vec<Append>) {
        while !waiting.is_empty() {
            let turn = Turn { writing: self.clone(), is_over: false };
            let mut end = lock(&self.queue).end;
            let mut records = Vec::new();
            let mut ends = Vec::new();
            for append in waiting {
                ends.push((append.records.len(), append.done));
                records.extend(append.records);
            }
            let appended = self.append(end, records).await;
            waiting = turn.over(&appended);
            for (count, done) in ends {
                end += count as LogPosition;
                // The receiver may have been dropped.
                let _ = done.send(match &appended {
                    Ok(_) => Ok(end),
                    Err(error) => Err(error.duplicate()),
                });
            }
        }
    }

    /// Records the result of an append, and returns what to append next; nothing after a failure.
    fn next(&self, appended: Result<&Appended, &JournalError>) -> Vec<Append> {
        let mut queue = lock(&self.queue);
        match appended {
            Ok(appended) => {
                self.bytes.fetch_add(appended.bytes, Ordering::Relaxed);
                queue.end = appended.end;
            }
            Err(error) => {
                queue.failed = true;
                for append in queue.waiting.drain(..) {
                    let _ = append.done.send(Err(error.duplicate()));
                }
            }
        }
        queue.busy = !queue.waiting.is_empty();
        std::mem::take(&mut queue.waiting)
    }

    /// Appends records, retrying transient errors. If an append took effect but its response was lost, the journal
    /// recognises the retry.
    async fn append(&self, end: LogPosition, records: Vec<Record>) -> Result<Appended, JournalError> {
        if records.is_empty() {
            return Ok(Appended { end, bytes: 0 });
        }
        let give_up = Instant::now().checked_add(self.lease);
        let mut pause = INITIAL_RETRY_DELAY;
        loop {
            if let Some(lost) = self.lost.reason() {
                return Err(lost);
            }
            let appended = self.journal.append(&self.thread, self.fence, end, records.clone()).await;
            match appended {
                Err(error) if error.is_transient() && give_up.is_none_or(|end| Instant::now() + pause < end) => {
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.lost.token.cancelled() => {}
                    }
                    pause = (pause * 2).min(MAX_RETRY_DELAY);
                }
                ended => return ended,
            }
        }
    }
}

/// Held while one caller appends and others wait. If the journal panics, dropping it fails the waiters, so that they do
/// not wait for ever.
struct Turn {
    writing: Arc<Writing>,
    is_over: bool,
}

impl Turn {
    /// Returns what to append next.
    fn over(mut self, appended: &Result<Appended, JournalError>) -> Vec<Append> {
        self.is_over = true;
        self.writing.next(appended.as_ref())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_over {
            self.writing.next(Err(&failed_before()));
        }
    }
}
