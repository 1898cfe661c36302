//! One writer for all agents of a run: what they write together is appended together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{Appended, Fence, Journal, JournalError, Record};
use crate::ids::{LogPosition, ThreadId};

/// The pauses before an append is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Appends what the agents of a run write to their thread, in the order in which they hand it over.
///
/// The work is done by a task, so that an append that has begun ends even if the agent that wanted it is gone: the end
/// of the log stays known.
#[derive(Clone)]
pub(crate) struct LogWriter {
    appends: mpsc::UnboundedSender<Append>,
    bytes: Arc<AtomicU64>,
}

struct Append {
    records: Vec<Record>,
    done: oneshot::Sender<Result<LogPosition, JournalError>>,
}

impl LogWriter {
    /// A writer for the owner of a thread whose log ends at `end`.
    ///
    /// While the journal says that it cannot be reached for the moment, an append is tried again, for as long as the lease
    /// may last.
    pub(crate) fn start(
        journal: Arc<dyn Journal>,
        thread: ThreadId,
        fence: Fence,
        end: LogPosition,
        lease: Duration,
    ) -> Self {
        let (appends, waiting) = mpsc::unbounded_channel();
        let bytes = Arc::new(AtomicU64::new(0));
        let writing = Writing { journal, thread, fence, lease };
        tokio::spawn(writing.run(end, waiting, bytes.clone()));
        Self { appends, bytes }
    }

    /// Appends records and gives the position after them.
    ///
    /// # Errors
    /// When they cannot be appended, or an append before failed: what follows would lack what was lost.
    pub(crate) async fn append(&self, records: Vec<Record>) -> Result<LogPosition, JournalError> {
        let (done, appended) = oneshot::channel();
        let closed = || JournalError::Storage("an earlier append to the log failed".into());
        self.appends.send(Append { records, done }).map_err(|_| closed())?;
        appended.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Bytes that all appends of this writer have taken.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

struct Writing {
    journal: Arc<dyn Journal>,
    thread: ThreadId,
    fence: Fence,
    lease: Duration,
}

impl Writing {
    async fn run(self, mut end: LogPosition, mut waiting: mpsc::UnboundedReceiver<Append>, bytes: Arc<AtomicU64>) {
        while let Some(first) = waiting.recv().await {
            let mut records = first.records;
            let mut ends = vec![(records.len(), first.done)];
            while let Ok(next) = waiting.try_recv() {
                ends.push((next.records.len(), next.done));
                records.extend(next.records);
            }
            match self.append(end, records).await {
                Ok(appended) => {
                    bytes.fetch_add(appended.bytes, Ordering::Relaxed);
                    for (count, done) in ends {
                        end += count as LogPosition;
                        // Whoever wanted it may be gone.
                        let _ = done.send(Ok(end));
                    }
                    end = appended.end;
                }
                Err(error) => {
                    for (_, done) in ends {
                        let _ = done.send(Err(error.duplicate()));
                    }
                    return;
                }
            }
        }
    }

    /// Appends, again and again while that may help: an append that was made although nobody heard of it is recognised
    /// by the journal.
    async fn append(&self, end: LogPosition, records: Vec<Record>) -> Result<Appended, JournalError> {
        let give_up = Instant::now() + self.lease;
        let mut pause = FIRST_PAUSE;
        loop {
            let appended = self.journal.append(&self.thread, self.fence, end, records.clone()).await;
            match appended {
                Err(error) if error.is_transient() && Instant::now() + pause < give_up => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                ended => return ended,
            }
        }
    }
}
