//! One writer for all agents of a run: what they write together is appended together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};

use super::{Fence, Journal, JournalError, Record};
use crate::ids::{LogPosition, ThreadId};

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
    pub(crate) fn start(journal: Arc<dyn Journal>, thread: ThreadId, fence: Fence, end: LogPosition) -> Self {
        let (appends, waiting) = mpsc::unbounded_channel();
        let bytes = Arc::new(AtomicU64::new(0));
        tokio::spawn(write(journal, thread, fence, end, waiting, bytes.clone()));
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

async fn write(
    journal: Arc<dyn Journal>,
    thread: ThreadId,
    fence: Fence,
    mut end: LogPosition,
    mut waiting: mpsc::UnboundedReceiver<Append>,
    bytes: Arc<AtomicU64>,
) {
    while let Some(first) = waiting.recv().await {
        let mut records = first.records;
        let mut ends = vec![(records.len(), first.done)];
        while let Ok(next) = waiting.try_recv() {
            ends.push((next.records.len(), next.done));
            records.extend(next.records);
        }
        match journal.append(&thread, fence, end, records).await {
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
