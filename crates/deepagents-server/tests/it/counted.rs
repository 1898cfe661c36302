//! A journal that counts what it returns, and whose deletions of threads can fail for a while.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use deepagents::{Journal, MemoryJournal};
use deepagents_core::journal::{
    Appended, Claim, Fence, JournalError, Loaded, LogEntry, LogPosition, Record, ThreadInfo, ThreadQuery, Threads,
};
use deepagents_core::{forward_journal, forward_threads};
use futures_core::future::BoxFuture;
use tokio::sync::RwLock;

#[derive(Default)]
pub(crate) struct Counted {
    inner: MemoryJournal,
    /// Log entries returned.
    pub(crate) entries: AtomicU64,
    pub(crate) claims: AtomicU64,
    /// Threads returned by listings.
    pub(crate) listed: AtomicUsize,
    /// Appends that were begun.
    pub(crate) appends: AtomicUsize,
    /// Held by a test so that nothing is appended meanwhile.
    pub(crate) gate: RwLock<()>,
    /// How many deletions of threads are still to fail.
    pub(crate) stuck: AtomicUsize,
    /// What others append to a thread just before it is rewound.
    pub(crate) before_rewind: Mutex<Vec<Record>>,
}

impl Counted {
    fn take_records(&self) -> Vec<Record> {
        std::mem::take(&mut *self.before_rewind.lock().unwrap())
    }

    fn count(&self, entries: &[LogEntry]) {
        self.entries.fetch_add(entries.len() as u64, Ordering::Relaxed);
    }
}

type Done<'a, T> = BoxFuture<'a, Result<T, JournalError>>;

impl Journal for Counted {
    forward_journal!([.inner]; renew, release, put_snapshot, storage);

    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> Done<'a, Fence> {
        Box::pin(async move {
            self.claims.fetch_add(1, Ordering::Relaxed);
            let records = if claim.owner == "rewind" { self.take_records() } else { Vec::new() };
            if !records.is_empty() {
                let end = self.inner.threads().get(thread).await?.map_or(0, |info| info.end);
                let fence = self.inner.claim(thread, Claim::new("another", claim.lease)).await?;
                self.inner.append(thread, fence, end, records).await?;
                self.inner.release(thread, fence).await?;
            }
            self.inner.claim(thread, claim).await
        })
    }
    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        at: LogPosition,
        records: Vec<Record>,
    ) -> Done<'a, Appended> {
        Box::pin(async move {
            self.appends.fetch_add(1, Ordering::Relaxed);
            let _allowed = self.gate.read().await;
            self.inner.append(thread, fence, at, records).await
        })
    }
    fn load<'a>(&'a self, thread: &'a str, at: Option<LogPosition>) -> Done<'a, Loaded> {
        Box::pin(async move {
            let loaded = self.inner.load(thread, at).await?;
            self.count(&loaded.entries);
            Ok(loaded)
        })
    }
    fn read<'a>(&'a self, thread: &'a str, positions: Range<LogPosition>) -> Done<'a, Vec<LogEntry>> {
        Box::pin(async move {
            let entries = self.inner.read(thread, positions).await?;
            self.count(&entries);
            Ok(entries)
        })
    }
    fn threads(&self) -> &dyn Threads {
        self
    }
}

impl Threads for Counted {
    forward_threads!([.inner.threads()]; get, set_metadata, update_metadata, set_parent, set_ttl, copy, remove, sweep);

    fn list<'a>(&'a self, query: &'a ThreadQuery) -> Done<'a, Vec<ThreadInfo>> {
        Box::pin(async move {
            let listed = self.inner.threads().list(query).await?;
            self.listed.fetch_add(listed.len(), Ordering::Relaxed);
            Ok(listed)
        })
    }
    fn delete<'a>(&'a self, thread: &'a str) -> Done<'a, bool> {
        let one_less = |stuck: usize| stuck.checked_sub(1);
        if self.stuck.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            return Box::pin(async { Err(JournalError::Storage("it is away".into())) });
        }
        self.inner.threads().delete(thread)
    }
}
