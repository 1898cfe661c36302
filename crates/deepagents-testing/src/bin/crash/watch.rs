//! A journal that notes what was acknowledged, in a file that outlives the process.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::journal::{
    Appended, Claim, Entry, Fence, Journal, JournalError, Loaded, Position, Record, Snapshot, Threads,
};
use futures_core::future::BoxFuture;

pub(crate) struct Watched {
    pub(crate) inner: Arc<dyn Journal>,
    pub(crate) acknowledged: File,
}

impl Journal for Watched {
    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> BoxFuture<'a, Result<Fence, JournalError>> {
        self.inner.claim(thread, claim)
    }

    fn renew<'a>(&'a self, thread: &'a str, fence: Fence, lease: Duration) -> BoxFuture<'a, Result<(), JournalError>> {
        self.inner.renew(thread, fence, lease)
    }

    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> BoxFuture<'a, Result<(), JournalError>> {
        self.inner.release(thread, fence)
    }

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: Position,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        Box::pin(async move {
            let appended = self.inner.append(thread, fence, expected, records).await?;
            // One write of a line is whole or absent, also when the process is killed.
            (&self.acknowledged)
                .write_all(format!("{:020}\n", appended.end).as_bytes())
                .map_err(|error| JournalError::Storage(Box::new(error)))?;
            Ok(appended)
        })
    }

    fn load<'a>(&'a self, thread: &'a str, at: Option<Position>) -> BoxFuture<'a, Result<Loaded, JournalError>> {
        self.inner.load(thread, at)
    }

    fn read<'a>(
        &'a self,
        thread: &'a str,
        positions: Range<Position>,
    ) -> BoxFuture<'a, Result<Vec<Entry>, JournalError>> {
        self.inner.read(thread, positions)
    }

    fn put_snapshot<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'a, Result<u64, JournalError>> {
        self.inner.put_snapshot(thread, fence, snapshot)
    }

    fn threads(&self) -> &dyn Threads {
        self.inner.threads()
    }
}
