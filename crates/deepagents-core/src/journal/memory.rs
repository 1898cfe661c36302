//! A journal in memory.

mod inner;
mod thread;

use std::future::ready;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value};

use self::inner::Inner;
use self::thread::{Thread, later};
use super::codec::encoded_len;
use super::{
    Appended, Claim, Fence, Journal, JournalError, Loaded, LogEntry, Record, Snapshot, ThreadInfo, ThreadQuery,
    Threads, check_child, check_metadata, check_thread,
};
use crate::env::{Clock, SystemClock, Timestamp};
use crate::ids::{LogPosition, ThreadId};
use crate::panics::lock;

type Done<'a, T> = BoxFuture<'a, Result<T, JournalError>>;

/// Stores logs in memory, for tests and for programs whose threads need not outlive them.
///
/// Records are stored without encoding, so appends report no bytes and no snapshots fall due.
///
/// ```
/// use deepagents_core::agent::Agent;
/// use deepagents_core::journal::MemoryJournal;
/// # fn f(model: std::sync::Arc<dyn deepagents_core::model::ChatModel>) -> Result<(), deepagents_core::agent::BuildError> {
/// let agent = Agent::builder(model).journal(MemoryJournal::new()).build()?;
/// # drop(agent);
/// # Ok(()) }
/// ```
pub struct MemoryJournal {
    inner: Mutex<Inner>,
    clock: Arc<dyn Clock>,
}

impl Default for MemoryJournal {
    fn default() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }
}

impl MemoryJournal {
    /// Creates an empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty journal that takes all times, including those of leases, from a clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { inner: Mutex::default(), clock }
    }

    /// Runs `work` on the threads at the current time, truncated to milliseconds.
    fn with<T>(&self, work: impl FnOnce(&mut Inner, Timestamp) -> Result<T, JournalError>) -> Done<'static, T>
    where
        T: Send + 'static,
    {
        let now = self.clock.now();
        let now = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
        // Nothing panics while the lock is held, and logs are only appended to.
        let mut inner = lock(&self.inner);
        Box::pin(ready(work(&mut inner, now)))
    }
}

impl Journal for MemoryJournal {
    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> Done<'a, Fence> {
        self.with(|inner, now| {
            check_metadata(thread, &claim.metadata)?;
            let epoch = inner.epoch + 1;
            let found = inner.find_or_new(thread, now)?;
            found.check_free(now, &claim.take_over)?;
            if !claim.metadata.is_empty() {
                found.merge_metadata(claim.metadata, now);
            }
            found.claim(epoch, claim.owner, later(now, claim.lease));
            inner.epoch = epoch;
            Ok(Fence::new(epoch))
        })
    }

    fn renew<'a>(&'a self, thread: &'a str, fence: Fence, lease: Duration) -> Done<'a, ()> {
        self.with(|inner, now| {
            inner.owned(thread, fence, now)?.renew(later(now, lease));
            Ok(())
        })
    }

    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> Done<'a, ()> {
        self.with(|inner, now| {
            let Ok(found) = inner.owned(thread, fence, now) else { return Ok(()) };
            if found.release(now) {
                inner.threads.remove(thread);
            }
            Ok(())
        })
    }

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> Done<'a, Appended> {
        // Measured before the lock is taken, and once for all listings. Records that cannot be serialised can still be
        // stored.
        let sized = |record| {
            let bytes = encoded_len(&record).unwrap_or(0);
            (record, bytes)
        };
        let records: Vec<_> = records.into_iter().map(sized).collect();
        self.with(|inner, now| {
            let found = inner.owned(thread, fence, now)?;
            if found.info.end == expected {
                found.append(records, now);
            } else if !found.ends_with(expected, &records) {
                return Err(JournalError::Conflict { thread: thread.to_owned(), expected, found: found.info.end });
            }
            Ok(Appended { end: found.info.end, bytes: 0 })
        })
    }

    fn load<'a>(&'a self, thread: &'a str, at: Option<LogPosition>) -> Done<'a, Loaded> {
        self.with(|inner, now| {
            let Some(found) = inner.find(thread, now) else { return Ok(Loaded::default()) };
            let until = at.unwrap_or(found.info.end);
            let snapshot = found.snapshot(until);
            let from = snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
            Ok(Loaded {
                snapshot_bytes: snapshot.as_ref().map_or(0, |snapshot| snapshot.body.len() as u64),
                entries: found.read(&(from..until)),
                entry_bytes: 0,
                snapshot,
                end: found.info.end,
                created_at: Some(found.info.created_at),
            })
        })
    }

    fn read<'a>(&'a self, thread: &'a str, positions: Range<LogPosition>) -> Done<'a, Vec<LogEntry>> {
        self.with(|inner, now| Ok(inner.find(thread, now).map_or_else(Vec::new, |found| found.read(&positions))))
    }

    fn put_snapshot<'a>(&'a self, thread: &'a str, fence: Fence, snapshot: Snapshot) -> Done<'a, u64> {
        self.with(|inner, now| {
            let found = inner.owned(thread, fence, now)?;
            if snapshot.position > found.info.end {
                return Err(JournalError::no_state(thread, snapshot.position, "the log ends before it"));
            }
            Ok(found.put_snapshot(snapshot))
        })
    }

    fn threads(&self) -> &dyn Threads {
        self
    }

    fn storage(&self) -> Done<'_, Option<String>> {
        // Two journals that exist at the same time have different addresses.
        Box::pin(ready(Ok(Some(format!("memory {:p}", &raw const *self)))))
    }
}

impl Threads for MemoryJournal {
    fn get<'a>(&'a self, thread: &'a str) -> Done<'a, Option<ThreadInfo>> {
        self.with(|inner, now| Ok(inner.find(thread, now).map(|found| found.info_at(now))))
    }

    fn list<'a>(&'a self, query: &'a ThreadQuery) -> Done<'a, Vec<ThreadInfo>> {
        self.with(|inner, now| {
            let listed = |thread: &&Thread| thread.is_listed(query, now) && !inner.is_over(&thread.info.id, now);
            let mut found: Vec<&Thread> = inner.threads.values().filter(listed).collect();
            found.sort_by(|a, b| query.compare(&a.info, &b.info));
            Ok(found.into_iter().skip(query.offset).take(query.limit).map(|thread| thread.info_at(now)).collect())
        })
    }

    fn set_metadata<'a>(&'a self, thread: &'a str, metadata: Map<String, Value>) -> Done<'a, ()> {
        self.with(|inner, now| {
            check_metadata(thread, &metadata)?;
            inner.find_or_new(thread, now)?.merge_metadata(metadata, now);
            Ok(())
        })
    }

    fn update_metadata<'a>(&'a self, thread: &'a str, metadata: Map<String, Value>) -> Done<'a, ()> {
        self.with(|inner, now| {
            check_metadata(thread, &metadata)?;
            inner.existing(thread, now)?.merge_metadata(metadata, now);
            Ok(())
        })
    }

    fn set_parent<'a>(&'a self, thread: &'a str, parent: Option<&'a str>) -> Done<'a, ()> {
        self.with(|inner, now| {
            parent.map_or(Ok(()), |parent| check_child(thread, parent))?;
            inner.find_or_new(thread, now)?.info.parent = parent.map(str::to_owned);
            Ok(())
        })
    }

    fn set_ttl<'a>(&'a self, thread: &'a str, ttl: Option<Duration>) -> Done<'a, ()> {
        self.with(|inner, now| {
            inner.existing(thread, now)?.set_ttl(ttl);
            Ok(())
        })
    }

    fn copy<'a>(&'a self, from: &'a str, to: &'a str, until: Option<LogPosition>) -> Done<'a, ()> {
        self.with(|inner, now| {
            let mut copies = vec![inner.existing(from, now)?.copy_until(to, until, now)?];
            for id in inner.descendants(from) {
                let Some(child) = inner.threads.get(&id).filter(|_| !inner.is_over(&id, now)) else { continue };
                let renamed = |id: &str| id.strip_prefix(from).map(|rest| format!("{to}{rest}"));
                let mut copy = child.copy_until(&renamed(&id).unwrap_or_default(), None, now)?;
                copy.info.parent = child.info.parent.as_deref().and_then(renamed);
                copies.push(copy);
            }
            for copy in &copies {
                check_thread(&copy.info.id)?;
                if inner.find(&copy.info.id, now).is_some() {
                    return Err(JournalError::Exists { thread: copy.info.id.clone() });
                }
            }
            inner.threads.extend(copies.into_iter().map(|copy| (copy.info.id.clone(), copy)));
            Ok(())
        })
    }

    fn delete<'a>(&'a self, thread: &'a str) -> Done<'a, bool> {
        self.with(|inner, now| {
            inner.find(thread, now);
            Ok(inner.remove(thread) > 0)
        })
    }

    fn remove<'a>(&'a self, thread: &'a str, fence: Fence, positions: Range<LogPosition>) -> Done<'a, ()> {
        self.with(|inner, now| {
            let found = inner.owned(thread, fence, now)?;
            if !found.has_snapshot(positions.end) {
                let reason = "there is no snapshot to replace what comes before it";
                return Err(JournalError::no_state(thread, positions.end, reason));
            }
            found.remove(&positions);
            Ok(())
        })
    }

    fn sweep(&self) -> Done<'_, u64> {
        self.with(|inner, now| {
            let over = inner.threads.keys().filter(|id| inner.is_over(id, now));
            let over: Vec<ThreadId> = over.cloned().collect();
            Ok(over.iter().map(|id| inner.remove(id)).sum())
        })
    }
}

impl std::fmt::Debug for MemoryJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryJournal").field("threads", &lock(&self.inner).threads.len()).finish_non_exhaustive()
    }
}
