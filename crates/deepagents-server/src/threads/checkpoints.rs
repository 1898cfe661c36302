//! The checkpoints of a thread as clients know them.

use deepagents_core::agent::ThreadAccess;
use deepagents_core::journal::{CheckpointSource, LogPosition};
use jiff::Timestamp;
use uuid::Uuid;

use crate::error::Result;

/// Marks the id of the checkpoint before an input.
const BEFORE_INPUT: LogPosition = 1 << 60;
const HIGH: u64 = 0x0000_0000_0000_8000;
const LOW: u64 = 0x8000_0000_0000_0000;

/// Where a checkpoint is: after a record, or before the input that a run began with there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// All checkpoints, newest first.
pub(crate) async fn entries(threads: &ThreadAccess, thread: &str) -> Result<Vec<Entry>> {
    let found = threads.history(thread, None, usize::MAX).await?;
    let mut out: Vec<Entry> = Vec::with_capacity(found.len());
    for one in found.into_iter().rev() {
        let parent = one.parent.map(Place::After);
        let mut add = |place, parent, state, source| {
            let step = i64::try_from(out.len()).unwrap_or(i64::MAX) - 1;
            out.push(Entry { place, parent, state, source, at: one.at, run: one.run.clone(), step });
        };
        let place = Place::After(one.position);
        match one.origin {
            CheckpointSource::Input => {
                let before = Place::BeforeInput(one.position);
                add(before, parent, one.parent, "input");
                add(place, Some(before), Some(one.position), "loop");
            }
            CheckpointSource::Update => add(place, parent, Some(one.position), "update"),
            CheckpointSource::Rewind => add(place, parent, Some(one.position), "fork"),
            _ => add(place, parent, Some(one.position), "loop"),
        }
    }
    out.reverse();
    Ok(out)
}
