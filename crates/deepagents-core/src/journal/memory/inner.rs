//! All threads of a journal in memory.

use std::collections::{BTreeMap, BTreeSet};

use super::thread::Thread;
use crate::env::Timestamp;
use crate::ids::ThreadId;
use crate::journal::{Fence, JournalError, check_thread};

#[derive(Default)]
pub(super) struct Inner {
    /// Sorted by name, so that a thread's descendants follow it.
    pub(super) threads: BTreeMap<ThreadId, Thread>,
    /// The epoch of the last claim of any thread.
    pub(super) epoch: u64,
}

impl Inner {
    pub(super) fn find(&mut self, id: &str, now: Timestamp) -> Option<&mut Thread> {
        if self.is_over(id, now) {
            self.remove(id);
        }
        self.threads.get_mut(id)
    }

    /// Returns whether a thread's time to live has passed and nobody works on it or on a descendant.
    pub(super) fn is_over(&self, id: &str, now: Timestamp) -> bool {
        let works = |id: &str| self.threads.get(id).is_some_and(|thread| thread.is_worked_on(now));
        self.threads.get(id).is_some_and(|thread| thread.has_expired(now))
            && !works(id)
            && !self.descendants(id).iter().any(|id| works(id))
    }

    /// Returns a thread's descendants, parents before their children.
    pub(super) fn descendants(&self, id: &str) -> Vec<ThreadId> {
        let (mut family, mut found, below) = (BTreeSet::from([id]), Vec::new(), format!("{id}/"));
        for (id, thread) in self.threads.range(below.clone()..).take_while(|(id, _)| id.starts_with(&below)) {
            if thread.info.parent.as_deref().is_some_and(|parent| family.contains(parent)) {
                family.insert(id);
                found.push(id.clone());
            }
        }
        found
    }

    /// Removes a thread and its descendants. Returns the number of threads removed.
    pub(super) fn remove(&mut self, id: &str) -> u64 {
        let below = self.descendants(id);
        let removed = below.iter().map(String::as_str).chain([id]).filter_map(|id| self.threads.remove(id));
        removed.count() as u64
    }

    pub(super) fn find_or_new(&mut self, id: &str, now: Timestamp) -> Result<&mut Thread, JournalError> {
        check_thread(id)?;
        self.find(id, now);
        Ok(self.threads.entry(id.to_owned()).or_insert_with(|| Thread::new(id, now)))
    }

    pub(super) fn existing(&mut self, id: &str, now: Timestamp) -> Result<&mut Thread, JournalError> {
        self.find(id, now).ok_or_else(|| JournalError::not_found(id))
    }

    pub(super) fn owned(&mut self, id: &str, fence: Fence, now: Timestamp) -> Result<&mut Thread, JournalError> {
        let owned = self.find(id, now).filter(|thread| thread.is_owned_by(fence));
        owned.ok_or_else(|| JournalError::fenced(id))
    }
}
