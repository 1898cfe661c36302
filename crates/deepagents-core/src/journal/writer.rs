//! One writer for all agents of a run: what they write at the same time is appended together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::lease::{Lease, Lost};
use super::{Appended, Fence, Journal, JournalError, Record, Replay, load_replay};
use crate::ids::{LogPosition, ThreadId};
use crate::state::Schema;

/// The pauses before an append is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Appends what the agents of a run write to their thread, in the order in which they hand it over.
///
/// Who comes while nobody appends does it without another task; what comes meanwhile is appended together right after. An append
/// that has begun ends even if the agent that wanted it is gone, so that the end of the log stays known.
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
    /// Whether somebody appends.
    busy: bool,
    /// Whether an append has failed: what follows would lack what was lost.
    failed: bool,
    end: LogPosition,
}

struct Append {
    records: Vec<Record>,
    done: oneshot::Sender<Result<LogPosition, JournalError>>,
}

impl LogWriter {
    /// A writer for the owner of a thread whose log ends at `end`.
    ///
    /// While the journal says that it cannot be reached for the moment, an append is tried again, for as long as the lease
    /// may last. Once the thread is lost nothing more is written: an end that nobody wished would be the last word.
    pub(crate) fn new(lease: &Lease, end: LogPosition) -> Self {
        let queue = Mutex::new(Queue { waiting: Vec::new(), busy: false, failed: false, end });
        let writing = Writing {
            journal: lease.journal().clone(),
            thread: lease.thread().to_owned(),
            fence: lease.fence(),
            lease: lease.duration(),
            lost: lease.losing(),
            queue,
            bytes: AtomicU64::new(0),
        };
        Self { writing: Arc::new(writing) }
    }

    /// Why the thread is lost, if it is.
    pub(crate) fn why_lost(&self) -> Option<JournalError> {
        self.writing.lost.reason()
    }

    /// Appends records and gives the position after them.
    ///
    /// # Errors
    /// When they cannot be appended, or an append before failed.
    pub(crate) async fn append(&self, records: Vec<Record>) -> Result<LogPosition, JournalError> {
        let appended = {
            let mut queue = self.writing.lock();
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
            Ok(records) => Unfinished(Some(Box::pin(self.writing.clone().write(records)))).finish().await,
            Err(appended) => appended.await.unwrap_or_else(|_| Err(failed_before())),
        }
    }

    /// What the thread amounts to with all that was handed over before, for an agent with these channels.
    ///
    /// # Errors
    /// When an append failed, or the log cannot be read.
    pub(crate) async fn replay(&self, schema: Arc<Schema>) -> Result<Replay, JournalError> {
        // Nothing more, behind all that is under way.
        self.append(Vec::new()).await?;
        Ok(load_replay(&*self.writing.journal, &self.writing.thread, schema, None).await?.fold)
    }

    /// Bytes that all appends of this writer have taken.
    pub(crate) fn bytes(&self) -> u64 {
        self.writing.bytes.load(Ordering::Relaxed)
    }
}

fn failed_before() -> JournalError {
    JournalError::Storage("an earlier append to the log failed".into())
}

impl Writing {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends, and sees to it that what has come meanwhile is appended.
    async fn write(self: Arc<Self>, records: Vec<Record>) -> Result<LogPosition, JournalError> {
        let count = records.len();
        let turn = Turn { writing: self.clone(), is_over: false };
        let start = self.lock().end;
        let appended = self.append(start, records).await;
        let waiting = turn.over(&appended);
        if !waiting.is_empty() {
            tokio::spawn(self.write_waiting(waiting));
        }
        appended.map(|_| start + count as LogPosition)
    }

    /// Appends what has been handed over together, until nothing waits any more.
    async fn write_waiting(self: Arc<Self>, mut waiting: Vec<Append>) {
        while !waiting.is_empty() {
            let turn = Turn { writing: self.clone(), is_over: false };
            let mut end = self.lock().end;
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
                // Whoever wanted it may be gone.
                let _ = done.send(match &appended {
                    Ok(_) => Ok(end),
                    Err(error) => Err(error.duplicate()),
                });
            }
        }
    }

    /// Notes how an append ended, and gives what is to be appended next; after a failure nothing is.
    fn next(&self, appended: Result<&Appended, &JournalError>) -> Vec<Append> {
        let mut queue = self.lock();
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

    /// Appends, again and again while that may help: an append that was made although its answer was lost is recognised
    /// by the journal.
    async fn append(&self, end: LogPosition, records: Vec<Record>) -> Result<Appended, JournalError> {
        if records.is_empty() {
            return Ok(Appended { end, bytes: 0 });
        }
        let give_up = Instant::now().checked_add(self.lease);
        let mut pause = FIRST_PAUSE;
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
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                ended => return ended,
            }
        }
    }
}

/// The time in which one appends and others wait. A journal that panics ends it as well: nobody waits for what never comes.
struct Turn {
    writing: Arc<Writing>,
    is_over: bool,
}

impl Turn {
    /// Gives what is to be appended next.
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

/// An append that goes on in a task of its own if nobody waits for it any more.
struct Unfinished(Option<BoxFuture<'static, Result<LogPosition, JournalError>>>);

impl Unfinished {
    async fn finish(mut self) -> Result<LogPosition, JournalError> {
        let ended = match &mut self.0 {
            Some(append) => append.as_mut().await,
            None => Err(failed_before()),
        };
        self.0 = None;
        ended
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let (Some(append), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(append);
        }
    }
}
