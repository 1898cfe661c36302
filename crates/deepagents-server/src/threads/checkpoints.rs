//! The checkpoints of a thread as clients see them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deepagents_core::agent::ThreadAccess;
use deepagents_core::journal::{Checkpoint, CheckpointSource, Journal, LogPosition, ThreadInfo};
use jiff::Timestamp;
use uuid::Uuid;

use super::record::ThreadRecord;
use crate::error::{ApiError, Result};

/// The bit that marks the id of a checkpoint before an input.
const BEFORE_INPUT: LogPosition = 1 << 60;
const HIGH: u64 = 0x0000_0000_0000_8000;
const LOW: u64 = 0x8000_0000_0000_0000;

/// The place of a checkpoint: after a record, or before the input with which a run starts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    After(LogPosition),
    BeforeInput(LogPosition),
}

impl Place {
    pub(crate) fn id(self) -> String {
        let low = match self {
            Self::After(position) => position,
            Self::BeforeInput(position) => position | BEFORE_INPUT,
        };
        Uuid::from_u64_pair(HIGH, LOW | low).to_string()
    }

    pub(super) fn position(self) -> LogPosition {
        let (Self::After(position) | Self::BeforeInput(position)) = self;
        position
    }

    /// Parses a checkpoint id. Returns `None` for any other UUID.
    pub(crate) fn read(id: &str) -> Option<Self> {
        let (high, low) = Uuid::try_parse(id).ok()?.as_u64_pair();
        if high != HIGH || low & LOW == 0 {
            return None;
        }
        let position = low & !LOW;
        Some(if position & BEFORE_INPUT == 0 {
            Self::After(position)
        } else {
            Self::BeforeInput(position & !BEFORE_INPUT)
        })
    }
}

/// A checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    pub(crate) parent: Option<Place>,
    /// The log position of its state, or `None` if nothing came before.
    pub(crate) state: Option<LogPosition>,
    pub(crate) source: &'static str,
    pub(crate) at: Timestamp,
    pub(crate) run: Option<String>,
    /// Counts from -1.
    pub(crate) step: i64,
}

/// The checkpoints of a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    pub(super) oldest_first: Arc<Vec<Entry>>,
    /// The positions of the first and the last checkpoint that has a record in the log.
    pub(super) first: Option<LogPosition>,
    pub(super) last: Option<LogPosition>,
    /// When the thread was created.
    pub(super) thread_created_at: Option<Timestamp>,
}

impl Entries {
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &Entry> {
        self.oldest_first.iter().rev()
    }

    pub(crate) fn newest(&self) -> Option<&Entry> {
        self.oldest_first.last()
    }

    /// Whether they are still checkpoints of the thread: another process may have pruned it, or deleted it and created
    /// it again.
    async fn are_current(&self, journal: &dyn Journal, info: &ThreadInfo) -> Result<bool> {
        let Some(first) = self.first.filter(|_| self.thread_created_at == Some(info.created_at)) else {
            return Ok(false);
        };
        Ok(!journal.read(&info.id, first.saturating_sub(1)..first).await?.is_empty())
    }

    /// Finds a checkpoint by its id and returns it with the number of newer ones.
    pub(crate) fn find(&self, id: &str) -> Result<(usize, &Entry)> {
        let place = Place::read(id);
        let found = self.newest_first().enumerate().find(|(_, entry)| Some(entry.place) == place);
        found.ok_or_else(|| ApiError::not_found("Checkpoint", id))
    }
}

/// Number of checkpoints per read.
const PAGE_SIZE: usize = 64;

/// Maximum number of cached threads.
const MAX_CACHED_THREADS: usize = 256;

/// A cache of threads' checkpoints, so that a repeated lookup reads only what was added.
#[derive(Debug, Default)]
pub(crate) struct CheckpointCache(Mutex<HashMap<String, Entries>>);

impl CheckpointCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Evicts a thread whose log changed other than by appending.
    pub(crate) fn forget(&self, thread: &str) {
        self.lock().remove(thread);
    }

    /// Returns all checkpoints of a thread that clients may see.
    pub(crate) async fn entries(&self, threads: &ThreadAccess, info: &ThreadInfo) -> Result<Entries> {
        let thread = &*info.id;
        let thread_created_at = Some(info.created_at);
        // Taken out of the cache so that extending the list does not copy it.
        let cached = self.lock().remove(thread);
        let mut known = match cached {
            Some(known) if known.are_current(&**threads.journal(), info).await? => known,
            _ => Entries { thread_created_at, ..Entries::default() },
        };
        let (mut added, mut before) = (Vec::new(), None);
        loop {
            let page = threads.history(thread, before, PAGE_SIZE).await?;
            let (read, new) =
                (page.len(), page.into_iter().filter(|one| known.last.is_none_or(|last| one.position > last)));
            let count = added.len();
            added.extend(new);
            before = added.last().map(|one: &Checkpoint| one.position);
            if read < PAGE_SIZE || added.len() - count < read {
                break;
            }
        }
        // Earlier checkpoints were pruned. The state that pruning kept becomes the first one.
        if known.oldest_first.is_empty() {
            let left = match added.last() {
                // What the log begins with, which is before its first checkpoint.
                Some(oldest) => {
                    threads.journal().read(thread, 0..oldest.position).await?.first().map_or(0, |e| e.position)
                }
                None => info.end,
            };
            if left > 0 && threads.state_at(thread, left).await.is_ok() {
                let (place, at) = (Place::After(left), added.last().map_or(info.updated_at, |oldest| oldest.at));
                let base = Entry { place, parent: None, state: Some(left), source: "loop", at, run: None, step: -1 };
                Arc::make_mut(&mut known.oldest_first).push(base);
                known.last = Some(left);
            }
        }
        if !added.is_empty() {
            let entries = Arc::make_mut(&mut known.oldest_first);
            for mut one in added.into_iter().rev() {
                // The parent of the first one may be pruned.
                one.parent = one.parent.or(known.last);
                known.first.get_or_insert(one.position);
                known.last = Some(one.position);
                add(entries, &one);
            }
        }
        let mut all = self.lock();
        if all.len() >= MAX_CACHED_THREADS && !all.contains_key(thread) {
            all.clear();
        }
        all.insert(thread.to_owned(), known.clone());
        drop(all);
        Ok(known.without(&ThreadRecord::read(info).removed))
    }
}

/// Adds a checkpoint of the log. Clients see two for an input.
fn add(entries: &mut Vec<Entry>, one: &Checkpoint) {
    let parent = one.parent.map(Place::After);
    let mut push = |place, parent, state, source| {
        let step = i64::try_from(entries.len()).unwrap_or(i64::MAX) - 1;
        entries.push(Entry { place, parent, state, source, at: one.at, run: one.run.clone(), step });
    };
    let place = Place::After(one.position);
    match one.origin {
        CheckpointSource::Input => {
            let before = Place::BeforeInput(one.position);
            push(before, parent, one.parent, "input");
            push(place, Some(before), Some(one.position), "loop");
        }
        CheckpointSource::Update => push(place, parent, Some(one.position), "update"),
        CheckpointSource::Rewind => push(place, parent, Some(one.position), "fork"),
        _ => push(place, parent, Some(one.position), "loop"),
    }
}
