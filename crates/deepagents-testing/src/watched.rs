//! Journals observed while they work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deepagents_core::forward_journal;
use deepagents_core::journal::{Appended, Fence, Journal, JournalError, LogPosition, Record, Snapshot};
use futures_core::future::BoxFuture;

/// An observer of a journal's writes.
pub trait Watch: Send + Sync + 'static {
    /// Called before records are appended.
    fn appending(&self) {}

    /// Called after records were appended, with the time it took.
    ///
    /// # Errors
    /// An error returned here becomes the result of the append, although it has been done.
    fn appended(&self, appended: Appended, took: Duration) -> Result<(), JournalError>;

    /// Called after a snapshot was stored, with the time it took.
    fn snapshot_put(&self, took: Duration) {
        let _ = took;
    }
}

/// A journal with an observer of its writes. Otherwise it behaves like the inner journal.
pub struct Watched<W> {
    journal: Arc<dyn Journal>,
    /// The observer.
    pub watch: W,
}

impl<W: Watch> Watched<W> {
    /// Wraps a journal.
    pub fn new(journal: Arc<dyn Journal>, watch: W) -> Self {
        Self { journal, watch }
    }
}

impl<W: std::fmt::Debug> std::fmt::Debug for Watched<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("watch", &self.watch).finish_non_exhaustive()
    }
}

impl<W: Watch> Journal for Watched<W> {
    forward_journal!([.journal]; claim, renew, release, load, read, threads, storage);

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        Box::pin(async move {
            self.watch.appending();
            let started = Instant::now();
            let appended = self.journal.append(thread, fence, expected, records).await?;
            self.watch.appended(appended, started.elapsed())?;
            Ok(appended)
        })
    }

    fn put_snapshot<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'a, Result<u64, JournalError>> {
        Box::pin(async move {
            let started = Instant::now();
            let bytes = self.journal.put_snapshot(thread, fence, snapshot).await?;
            self.watch.snapshot_put(started.elapsed());
            Ok(bytes)
        })
    }
}
