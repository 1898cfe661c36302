//! Logs in memory.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value};

use super::{
    Appended, Claim, Fence, Journal, JournalError, Loaded, LogEntry, Record, Snapshot, ThreadInfo, ThreadQuery,
    Threads, check_thread, encode,
};
use crate::env::{Clock, SystemClock, Timestamp};
use crate::ids::{LogPosition, ThreadId};
use crate::status::RunStatus;

type Done<'a, T> = BoxFuture<'a, Result<T, JournalError>>;

/// Keeps logs in memory, for tests and for programs whose threads need not outlive them.
///
/// Records are kept as they are, so they count no bytes and no snapshots fall due.
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

#[derive(Default)]
struct Inner {
    threads: HashMap<ThreadId, Thread>,
    epoch: u64,
}

#[derive(Clone)]
struct Thread {
    info: ThreadInfo,
    entries: Vec<LogEntry>,
    snapshots: BTreeMap<LogPosition, String>,
    epoch: u64,
    lease_until: Timestamp,
    ttl: Option<Duration>,
}

impl Thread {
    fn new(id: &str, now: Timestamp) -> Self {
        Self {
            info: ThreadInfo::new(id, now),
            entries: Vec::new(),
            snapshots: BTreeMap::new(),
            epoch: 0,
            lease_until: now,
            ttl: None,
        }
    }

    fn touch(&mut self, now: Timestamp) {
        self.info.updated_at = now;
        self.info.expires_at = self.ttl.map(|ttl| later(now, ttl));
    }

    fn is_over(&self, now: Timestamp) -> bool {
        self.info.expires_at.is_some_and(|at| at <= now)
    }

    fn between(&self, positions: &Range<LogPosition>) -> &[LogEntry] {
        let at = |position: LogPosition| self.entries.partition_point(|entry| entry.position < position);
        self.entries.get(at(positions.start)..at(positions.end)).unwrap_or_default()
    }

    fn info(&self, now: Timestamp) -> ThreadInfo {
        let records: usize = self.entries.iter().filter_map(|e| encode(&e.record).ok()).map(|text| text.len()).sum();
        let snapshots: usize = self.snapshots.values().map(String::len).sum();
        let mut info = self.info.clone();
        info.bytes = (records + snapshots) as u64;
        info.owner = info.owner.filter(|_| self.lease_until > now);
        info
    }
}

impl Default for MemoryJournal {
    fn default() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }
}

impl MemoryJournal {
    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty journal that takes its times, and those of leases, from a clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { inner: Mutex::default(), clock }
    }

    /// Does something with the threads that are not over, at a time.
    fn with<T>(&self, work: impl FnOnce(&mut Inner, Timestamp) -> Result<T, JournalError>) -> Done<'static, T>
    where
        T: Send + 'static,
    {
        let now = self.clock.now();
        let now = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
        // Nothing panics while the lock is held, and a log is only ever extended.
        let mut inner: MutexGuard<'_, Inner> = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Box::pin(ready(work(&mut inner, now)))
    }
}

impl Inner {
    fn find(&mut self, id: &str, now: Timestamp) -> Option<&mut Thread> {
        if self.threads.get(id).is_some_and(|thread| thread.is_over(now)) {
            self.threads.remove(id);
        }
        self.threads.get_mut(id)
    }

    fn find_or_new(&mut self, id: &str, now: Timestamp) -> Result<&mut Thread, JournalError> {
        check_thread(id)?;
        self.find(id, now);
        Ok(self.threads.entry(id.to_owned()).or_insert_with(|| Thread::new(id, now)))
    }

    fn owned(&mut self, id: &str, fence: Fence, now: Timestamp) -> Result<&mut Thread, JournalError> {
        self.find(id, now)
            .filter(|thread| thread.epoch == fence.epoch() && thread.lease_until > now)
            .ok_or_else(|| JournalError::Fenced { thread: id.to_owned() })
    }
}

impl Journal for MemoryJournal {
    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> Done<'a, Fence> {
        self.with(|inner, now| {
            let epoch = inner.epoch + 1;
            let found = inner.find_or_new(thread, now)?;
            if let Some(owner) = found.info.owner.clone().filter(|_| found.lease_until > now && !claim.take_over) {
                return Err(JournalError::Busy { thread: thread.to_owned(), owner, until: found.lease_until });
            }
            (found.epoch, found.info.owner) = (epoch, Some(claim.owner));
            found.lease_until = later(now, claim.lease);
            inner.epoch = epoch;
            Ok(Fence::new(epoch))
        })
    }

    fn renew<'a>(&'a self, thread: &'a str, fence: Fence, lease: Duration) -> Done<'a, ()> {
        self.with(|inner, now| {
            inner.owned(thread, fence, now)?.lease_until = later(now, lease);
            Ok(())
        })
    }

    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> Done<'a, ()> {
        self.with(|inner, now| {
            let Ok(found) = inner.owned(thread, fence, now) else { return Ok(()) };
            (found.info.owner, found.lease_until) = (None, now);
            if found.info.end == 0 && found.info.metadata.is_empty() {
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
        self.with(|inner, now| {
            let found = inner.owned(thread, fence, now)?;
            if found.info.end != expected {
                return Err(JournalError::Conflict { thread: thread.to_owned(), expected, found: found.info.end });
            }
            found.info.status = found.info.status.after(&records);
            for record in records {
                found.entries.push(LogEntry { position: found.info.end, at: now, record });
                found.info.end += 1;
            }
            found.touch(now);
            Ok(Appended { end: found.info.end, bytes: 0 })
        })
    }

    fn load<'a>(&'a self, thread: &'a str, at: Option<LogPosition>) -> Done<'a, Loaded> {
        self.with(|inner, now| {
            let Some(found) = inner.find(thread, now) else { return Ok(Loaded::default()) };
            let until = at.unwrap_or(found.info.end);
            let snapshot = found.snapshots.range(..=until).next_back();
            let snapshot = snapshot.map(|(position, body)| Snapshot { position: *position, body: body.clone() });
            let from = snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
            Ok(Loaded {
                snapshot_bytes: snapshot.as_ref().map_or(0, |snapshot| snapshot.body.len() as u64),
                entries: found.between(&(from..until)).to_vec(),
                entry_bytes: 0,
                snapshot,
                end: found.info.end,
            })
        })
    }

    fn read<'a>(&'a self, thread: &'a str, positions: Range<LogPosition>) -> Done<'a, Vec<LogEntry>> {
        self.with(|inner, now| {
            Ok(inner.find(thread, now).map_or_else(Vec::new, |found| found.between(&positions).to_vec()))
        })
    }

    fn put_snapshot<'a>(&'a self, thread: &'a str, fence: Fence, snapshot: Snapshot) -> Done<'a, u64> {
        self.with(|inner, now| {
            let found = inner.owned(thread, fence, now)?;
            let Snapshot { position, body } = snapshot;
            if position > found.info.end {
                let reason = "the log ends before it";
                return Err(JournalError::NoState { thread: thread.to_owned(), position, reason });
            }
            let bytes = body.len() as u64;
            found.snapshots.insert(position, body);
            Ok(bytes)
        })
    }

    fn threads(&self) -> &dyn Threads {
        self
    }
}

impl Threads for MemoryJournal {
    fn get<'a>(&'a self, thread: &'a str) -> Done<'a, Option<ThreadInfo>> {
        self.with(|inner, now| Ok(inner.find(thread, now).map(|found| found.info(now))))
    }

    fn list<'a>(&'a self, query: &'a ThreadQuery) -> Done<'a, Vec<ThreadInfo>> {
        self.with(|inner, now| {
            let mut found: Vec<&Thread> =
                inner.threads.values().filter(|t| !t.is_over(now) && query.matches(&t.info)).collect();
            found.sort_by(|a, b| (b.info.updated_at, &a.info.id).cmp(&(a.info.updated_at, &b.info.id)));
            Ok(found.into_iter().skip(query.offset).take(query.limit).map(|thread| thread.info(now)).collect())
        })
    }

    fn set_metadata<'a>(&'a self, thread: &'a str, metadata: Map<String, Value>) -> Done<'a, ()> {
        self.with(|inner, now| {
            let found = inner.find_or_new(thread, now)?;
            for (key, value) in metadata {
                if value.is_null() {
                    found.info.metadata.remove(&key);
                } else {
                    found.info.metadata.insert(key, value);
                }
            }
            found.touch(now);
            Ok(())
        })
    }

    fn set_ttl<'a>(&'a self, thread: &'a str, ttl: Option<Duration>) -> Done<'a, ()> {
        self.with(|inner, now| {
            let missing = || JournalError::NotFound { thread: thread.to_owned() };
            let found = inner.find(thread, now).ok_or_else(missing)?;
            found.ttl = ttl;
            found.info.expires_at = ttl.map(|ttl| later(found.info.updated_at, ttl));
            Ok(())
        })
    }

    fn copy<'a>(&'a self, from: &'a str, to: &'a str, until: Option<LogPosition>) -> Done<'a, ()> {
        self.with(|inner, now| {
            check_thread(to)?;
            let missing = || JournalError::NotFound { thread: from.to_owned() };
            let mut copy = inner.find(from, now).ok_or_else(missing)?.clone();
            if inner.find(to, now).is_some() {
                return Err(JournalError::Exists { thread: to.to_owned() });
            }
            let until = until.unwrap_or(copy.info.end);
            let no_state = |reason| JournalError::NoState { thread: from.to_owned(), position: until, reason };
            if until > copy.info.end {
                return Err(no_state("the log ends before it"));
            }
            let base = copy.snapshots.range(..=until).next_back().map_or(0, |(position, _)| *position);
            if copy.between(&(base..until)).len() as u64 != until - base {
                return Err(no_state("it was pruned"));
            }
            copy.entries.retain(|entry| entry.position < until);
            copy.snapshots.retain(|position, _| *position <= until);
            let status = match copy.entries.first() {
                _ if until == copy.info.end => copy.info.status,
                Some(first) if first.position == 0 => {
                    RunStatus::Empty.after(copy.entries.iter().map(|entry| &entry.record))
                }
                _ => RunStatus::Ended.after(copy.entries.iter().map(|entry| &entry.record)),
            };
            copy.info = ThreadInfo {
                end: until,
                status,
                metadata: std::mem::take(&mut copy.info.metadata),
                ..ThreadInfo::new(to, now)
            };
            (copy.epoch, copy.lease_until, copy.ttl) = (0, now, None);
            inner.threads.insert(to.to_owned(), copy);
            Ok(())
        })
    }

    fn delete<'a>(&'a self, thread: &'a str) -> Done<'a, bool> {
        self.with(|inner, now| {
            inner.find(thread, now);
            Ok(inner.threads.remove(thread).is_some())
        })
    }

    fn remove<'a>(&'a self, thread: &'a str, positions: Range<LogPosition>) -> Done<'a, ()> {
        self.with(|inner, now| {
            let found = inner.find(thread, now).filter(|found| found.snapshots.contains_key(&positions.end));
            let Some(found) = found else {
                let reason = "there is no snapshot that could stand for what is before it";
                return Err(JournalError::NoState { thread: thread.to_owned(), position: positions.end, reason });
            };
            found.entries.retain(|entry| !positions.contains(&entry.position));
            found.snapshots.retain(|position, _| !positions.contains(position));
            Ok(())
        })
    }

    fn sweep(&self) -> Done<'_, u64> {
        self.with(|inner, now| {
            let before = inner.threads.len();
            inner.threads.retain(|_, thread| !thread.is_over(now));
            Ok((before - inner.threads.len()) as u64)
        })
    }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

impl std::fmt::Debug for MemoryJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("MemoryJournal").field("threads", &inner.threads.len()).finish_non_exhaustive()
    }
}
