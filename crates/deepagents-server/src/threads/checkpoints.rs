//! The checkpoints of a thread as clients know them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deepagents_core::agent::ThreadAccess;
use deepagents_core::journal::{Checkpoint, CheckpointSource, LogPosition, ThreadInfo};
use jiff::Timestamp;
use uuid::Uuid;

use super::record::Held;
use crate::error::{ApiError, Result};

/// Marks the id of the checkpoint before an input.
const BEFORE_INPUT: LogPosition = 1 << 60;
const HIGH: u64 = 0x0000_0000_0000_8000;
const LOW: u64 = 0x8000_0000_0000_0000;

/// Where a checkpoint is: after a record, or before the input that a run began with there.
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

    /// Reads an id; none where it is the id of something else.
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
    /// The position whose state it has; none where nothing was said before.
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
    /// The last position of the log that they are of.
    pub(super) last: Option<LogPosition>,
}

impl Entries {
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &Entry> {
        self.oldest_first.iter().rev()
    }

    pub(crate) fn newest(&self) -> Option<&Entry> {
        self.oldest_first.last()
    }

    /// A checkpoint by its id, and how many are newer.
    pub(crate) fn find(&self, id: &str) -> Result<(usize, &Entry)> {
        let place = Place::read(id);
        let found = self.newest_first().enumerate().find(|(_, entry)| Some(entry.place) == place);
        found.ok_or_else(|| ApiError::not_found("Checkpoint", id))
    }
}

/// Checkpoints that are read at once.
const PAGE: usize = 64;

/// Threads whose checkpoints are remembered.
const REMEMBERED: usize = 256;

/// The checkpoints of the threads that were looked at last, so that looking again reads what was added.
#[derive(Debug, Default)]
pub(crate) struct CheckpointCache(Mutex<HashMap<String, Entries>>);

impl CheckpointCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a thread whose log changed other than by growing.
    pub(crate) fn forget(&self, thread: &str) {
        self.lock().remove(thread);
    }

    /// All checkpoints of a thread that clients are shown.
    pub(crate) async fn entries(&self, threads: &ThreadAccess, info: &ThreadInfo) -> Result<Entries> {
        let thread = &*info.id;
        // Taken out, so that what is added is not added to a copy.
        let mut known = self.lock().remove(thread).unwrap_or_default();
        let (mut added, mut before) = (Vec::new(), None);
        loop {
            let page = threads.history(thread, before, PAGE).await?;
            let (read, new) =
                (page.len(), page.into_iter().filter(|one| known.last.is_none_or(|last| one.position > last)));
            let count = added.len();
            added.extend(new);
            before = added.last().map(|one: &Checkpoint| one.position);
            if read < PAGE || added.len() - count < read {
                break;
            }
        }
        // What came before was removed: the state that was left then is the first one.
        if known.oldest_first.is_empty() {
            let left = added.last().map_or(Some(info.end), |oldest| oldest.parent).filter(|left| *left > 0);
            if let Some(left) = left
                && threads.state_at(thread, left).await.is_ok()
            {
                let (place, at) = (Place::After(left), added.last().map_or(info.updated_at, |oldest| oldest.at));
                let base = Entry { place, parent: None, state: Some(left), source: "loop", at, run: None, step: -1 };
                Arc::make_mut(&mut known.oldest_first).push(base);
                known.last = Some(left);
            }
        }
        if !added.is_empty() {
            let entries = Arc::make_mut(&mut known.oldest_first);
            for one in added.into_iter().rev() {
                known.last = Some(one.position);
                add(entries, &one);
            }
        }
        let mut all = self.lock();
        if all.len() >= REMEMBERED && !all.contains_key(thread) {
            all.clear();
        }
        all.insert(thread.to_owned(), known.clone());
        drop(all);
        Ok(known.without(&Held::read(info).removed))
    }
}

/// Adds a checkpoint of the log: that of an input is two for clients.
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
