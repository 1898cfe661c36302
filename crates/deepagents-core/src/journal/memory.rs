//! Logs in memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value};

use super::{
    Appended, Claim, Fence, Journal, JournalError, Loaded, LogEntry, Record, Snapshot, ThreadInfo, ThreadQuery,
    Threads, check_child, check_thread, encode,
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
    /// By name, so that those below a thread follow it.
    threads: BTreeMap<ThreadId, Thread>,
    epoch: u64,
}

#[derive(Clone)]
struct Thread {
    info: ThreadInfo,
    entries: Vec<LogEntry>,
    snapshots: BTreeMap<LogPosition, String>,
    epoch: u64,
    owner: Option<String>,
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
            owner: None,
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
        info.owner = self.owner(now).map(str::to_owned);
        info
    }

    /// Who works on it, while the lease lasts.
    fn owner(&self, now: Timestamp) -> Option<&str> {
        self.owner.as_deref().filter(|_| self.lease_until > now)
    }

    /// A copy of the thread up to a position, which has no owner, no time to live and no parent.
    fn copy_until(&self, to: &str, until: Option<LogPosition>, now: Timestamp) -> Result<Self, JournalError> {
        let until = until.unwrap_or(self.info.end);
        let no_state = |reason| JournalError::NoState { thread: self.info.id.clone(), position: until, reason };
        if until > self.info.end {
            return Err(no_state("the log ends before it"));
        }
        let base = self.snapshots.range(..=until).next_back().map_or(0, |(position, _)| *position);
        if self.between(&(base..until)).len() as u64 != until - base {
            return Err(no_state("it was pruned"));
        }
        let mut copy = Self::new(to, now);
        copy.entries = self.entries.iter().filter(|entry| entry.position < until).cloned().collect();
        copy.snapshots = self.snapshots.range(..=until).map(|(at, body)| (*at, body.clone())).collect();
        copy.info.status = match copy.entries.first() {
            _ if until == self.info.end => self.info.status,
            Some(first) if first.position == 0 => {
                RunStatus::Empty.after(copy.entries.iter().map(|entry| &entry.record))
            }
            _ => RunStatus::Ended.after(copy.entries.iter().map(|entry| &entry.record)),
        };
        (copy.info.end, copy.info.metadata) = (until, self.info.metadata.clone());
        Ok(copy)
    }

    fn is_listed(&self, query: &ThreadQuery, now: Timestamp) -> bool {
        let owned = query.claimable && self.owner(now).is_some();
        !owned && !self.is_over(now) && query.matches(&self.info)
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
            self.remove(id);
        }
        self.threads.get_mut(id)
    }

    /// The threads below one, parents before their children.
    fn descendants(&self, id: &str) -> Vec<ThreadId> {
        let (mut family, mut found, below) = (BTreeSet::from([id]), Vec::new(), format!("{id}/"));
        for (id, thread) in self.threads.range(below.clone()..).take_while(|(id, _)| id.starts_with(&below)) {
            if thread.info.parent.as_ref().is_some_and(|parent| family.contains(parent.as_str())) {
                family.insert(id);
                found.push(id.clone());
            }
        }
        found
    }

    /// Removes a thread and those below it; returns how many.
    fn remove(&mut self, id: &str) -> u64 {
        let below = self.descendants(id);
        let removed = below.iter().map(String::as_str).chain([id]).filter_map(|id| self.threads.remove(id));
        removed.count() as u64
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
            if let Some(owner) = found.owner(now).filter(|_| !claim.take_over) {
                let owner = owner.to_owned();
                return Err(JournalError::Busy { thread: thread.to_owned(), owner, until: found.lease_until });
            }
            (found.epoch, found.owner) = (epoch, Some(claim.owner));
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
            (found.owner, found.lease_until) = (None, now);
            if found.info.end == 0 && found.info.metadata.is_empty() && found.info.parent.is_none() {
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
                inner.threads.values().filter(|thread| thread.is_listed(query, now)).collect();
            // Those that changed at once stay in the order of their names.
            if query.claimable {
                found.sort_by_key(|thread| thread.info.updated_at);
            } else {
                found.sort_by_key(|thread| Reverse(thread.info.updated_at));
            }
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

    fn set_parent<'a>(&'a self, thread: &'a str, parent: Option<&'a str>) -> Done<'a, ()> {
        self.with(|inner, now| {
            parent.map_or(Ok(()), |parent| check_child(thread, parent))?;
            inner.find_or_new(thread, now)?.info.parent = parent.map(str::to_owned);
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
            let missing = || JournalError::NotFound { thread: from.to_owned() };
            let source = inner.find(from, now).ok_or_else(missing)?;
            let mut copies = vec![source.copy_until(to, until, now)?];
            for id in inner.descendants(from) {
                let Some(child) = inner.threads.get(&id).filter(|child| !child.is_over(now)) else { continue };
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
            let over = inner.threads.values().filter(|thread| thread.is_over(now));
            let over: Vec<ThreadId> = over.map(|thread| thread.info.id.clone()).collect();
            Ok(over.iter().map(|id| inner.remove(id)).sum())
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
