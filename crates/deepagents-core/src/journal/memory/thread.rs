//! A thread in memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use crate::env::Timestamp;
use crate::ids::LogPosition;
use crate::journal::{Fence, JournalError, LogEntry, Record, Snapshot, TakeOver, ThreadInfo, ThreadQuery, encode};
use crate::status::RunStatus;

#[derive(Clone)]
pub(super) struct Thread {
    /// Everything but the owner, which [`info_at`](Self::info_at) adds while the lease is valid.
    pub(super) info: ThreadInfo,
    entries: Vec<SizedEntry>,
    snapshots: BTreeMap<LogPosition, String>,
    epoch: u64,
    owner: Option<String>,
    lease_until: Timestamp,
    ttl: Option<Duration>,
}

/// An entry with the size of its record as JSON.
#[derive(Clone)]
struct SizedEntry {
    entry: LogEntry,
    bytes: u64,
}

impl Thread {
    pub(super) fn new(id: &str, now: Timestamp) -> Self {
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

    /// Returns the info with the owner.
    pub(super) fn info_at(&self, now: Timestamp) -> ThreadInfo {
        ThreadInfo { owner: self.owner(now).map(str::to_owned), ..self.info.clone() }
    }

    pub(super) fn is_listed(&self, query: &ThreadQuery, now: Timestamp) -> bool {
        !(query.claimable && self.is_worked_on(now)) && query.matches(&self.info)
    }

    /// Returns whether its time to live has passed.
    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.info.expires_at.is_some_and(|at| at <= now)
    }

    /// Returns whether it has an owner with a valid lease.
    pub(super) fn is_worked_on(&self, now: Timestamp) -> bool {
        self.owner(now).is_some()
    }

    /// Returns the owner while its lease is valid.
    fn owner(&self, now: Timestamp) -> Option<&str> {
        self.owner.as_deref().filter(|_| self.lease_until > now)
    }

    /// The last owner to claim it owns it until it is released, even after the lease expires.
    pub(super) fn is_owned_by(&self, fence: Fence) -> bool {
        self.epoch == fence.epoch() && self.owner.is_some()
    }

    pub(super) fn check_free(&self, now: Timestamp, take_over: &TakeOver) -> Result<(), JournalError> {
        let Some(owner) = self.owner(now).filter(|owner| !take_over.is_from(owner)) else { return Ok(()) };
        Err(JournalError::Busy { thread: self.info.id.clone(), owner: owner.to_owned(), until: self.lease_until })
    }

    pub(super) fn claim(&mut self, epoch: u64, owner: String, until: Timestamp) {
        (self.epoch, self.owner, self.lease_until) = (epoch, Some(owner), until);
    }

    pub(super) fn renew(&mut self, until: Timestamp) {
        self.lease_until = until;
    }

    /// Releases the thread. Returns whether it is empty.
    pub(super) fn release(&mut self, now: Timestamp) -> bool {
        (self.owner, self.lease_until) = (None, now);
        self.info.end == 0 && self.info.metadata.is_empty() && self.info.parent.is_none()
    }

    fn touch(&mut self, now: Timestamp) {
        self.info.updated_at = now;
        self.set_ttl(self.ttl);
    }

    pub(super) fn set_ttl(&mut self, ttl: Option<Duration>) {
        self.ttl = ttl;
        self.info.expires_at = ttl.map(|ttl| later(self.info.updated_at, ttl));
    }

    pub(super) fn merge_metadata(&mut self, metadata: serde_json::Map<String, serde_json::Value>, now: Timestamp) {
        for (key, value) in metadata {
            if value.is_null() {
                self.info.metadata.remove(&key);
            } else {
                self.info.metadata.insert(key, value);
            }
        }
        self.touch(now);
    }

    /// Appends records, each with its size as JSON.
    pub(super) fn append(&mut self, records: Vec<(Record, u64)>, now: Timestamp) {
        if let Some((status, stop)) = records.iter().rev().find_map(|(record, _)| record.run_status()) {
            (self.info.status, self.info.stop) = (status, stop.cloned());
        }
        for (record, bytes) in records {
            self.entries.push(SizedEntry { entry: LogEntry { position: self.info.end, at: now, record }, bytes });
            self.info.bytes += bytes;
            self.info.end += 1;
        }
        self.touch(now);
    }

    /// Returns whether the log ends with these records, starting at a position.
    pub(super) fn ends_with(&self, position: LogPosition, records: &[(Record, u64)]) -> bool {
        let there = self.between(&(position..self.info.end));
        let same = |(entry, (record, bytes)): (&SizedEntry, &(Record, u64))| {
            let text = encode(&entry.entry.record).ok();
            entry.bytes == *bytes && text.is_some() && text == encode(record).ok()
        };
        there.len() as u64 == self.info.end.saturating_sub(position)
            && there.len() == records.len()
            && !records.is_empty()
            && there.iter().zip(records).all(same)
    }

    fn between(&self, positions: &Range<LogPosition>) -> &[SizedEntry] {
        let at = |position: LogPosition| self.entries.partition_point(|sized| sized.entry.position < position);
        self.entries.get(at(positions.start)..at(positions.end)).unwrap_or_default()
    }

    pub(super) fn read(&self, positions: &Range<LogPosition>) -> Vec<LogEntry> {
        self.between(positions).iter().map(|sized| sized.entry.clone()).collect()
    }

    /// Returns the last snapshot at or before a position.
    pub(super) fn snapshot(&self, until: LogPosition) -> Option<Snapshot> {
        let (position, body) = self.snapshots.range(..=until).next_back()?;
        Some(Snapshot { position: *position, body: body.clone() })
    }

    pub(super) fn has_snapshot(&self, position: LogPosition) -> bool {
        self.snapshots.contains_key(&position)
    }

    /// Stores a snapshot and returns its size.
    pub(super) fn put_snapshot(&mut self, Snapshot { position, body }: Snapshot) -> u64 {
        let bytes = body.len() as u64;
        let replaced = self.snapshots.insert(position, body).map_or(0, |old| old.len() as u64);
        self.info.bytes = (self.info.bytes + bytes).saturating_sub(replaced);
        bytes
    }

    /// Removes the entries and snapshots at these positions.
    pub(super) fn remove(&mut self, positions: &Range<LogPosition>) {
        self.entries.retain(|sized| !positions.contains(&sized.entry.position));
        self.snapshots.retain(|position, _| !positions.contains(position));
        self.count_bytes();
    }

    fn count_bytes(&mut self) {
        let records: u64 = self.entries.iter().map(|sized| sized.bytes).sum();
        let snapshots: u64 = self.snapshots.values().map(|body| body.len() as u64).sum();
        self.info.bytes = records + snapshots;
    }

    /// Copies the thread up to a position. The copy has no owner, no time to live and no parent.
    pub(super) fn copy_until(
        &self,
        to: &str,
        until: Option<LogPosition>,
        now: Timestamp,
    ) -> Result<Self, JournalError> {
        let until = until.unwrap_or(self.info.end);
        let no_state = |reason| JournalError::no_state(&self.info.id, until, reason);
        if until > self.info.end {
            return Err(no_state("the log ends before it"));
        }
        let base = self.snapshots.range(..=until).next_back().map_or(0, |(position, _)| *position);
        if self.between(&(base..until)).len() as u64 != until - base {
            return Err(no_state("it was pruned"));
        }
        let mut copy = Self::new(to, now);
        copy.entries = self.between(&(0..until)).to_vec();
        copy.snapshots = self.snapshots.range(..=until).map(|(at, body)| (*at, body.clone())).collect();
        let last_run = copy.entries.iter().rev().find_map(|sized| sized.entry.record.run_status());
        (copy.info.status, copy.info.stop) = match (last_run, copy.entries.first()) {
            _ if until == self.info.end => (self.info.status, self.info.stop.clone()),
            (Some((status, stop)), _) => (status, stop.cloned()),
            (None, Some(first)) if first.entry.position == 0 => (RunStatus::Empty, None),
            (None, _) => (RunStatus::Ended, None),
        };
        (copy.info.end, copy.info.metadata) = (until, self.info.metadata.clone());
        copy.count_bytes();
        Ok(copy)
    }
}

pub(super) fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}
