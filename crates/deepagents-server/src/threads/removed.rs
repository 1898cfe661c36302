//! Checkpoints of runs that were rolled back. The log keeps them, as it only grows; clients are not shown them.

use std::collections::HashMap;
use std::sync::Arc;

use deepagents_core::journal::LogPosition;
use serde::{Deserialize, Serialize};

use super::checkpoints::{Entries, Entry, Place};

/// A part of a log that clients are not shown.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RemovedRange {
    /// It begins behind this position,
    after: LogPosition,
    /// and ends with this one.
    until: LogPosition,
}

impl RemovedRange {
    fn has(self, position: LogPosition) -> bool {
        self.after < position && position <= self.until
    }

    /// Adds a part to those before it.
    pub(crate) fn add(removed: &mut Vec<Self>, after: LogPosition, until: LogPosition) {
        removed.retain(|earlier| earlier.after < after);
        match removed.last_mut().filter(|last| after <= last.until) {
            Some(last) => last.until = until,
            None => removed.push(Self { after, until }),
        }
    }
}

impl Entries {
    /// Without those of parts that were removed. What came behind those has the checkpoint before them as its parent.
    pub(super) fn without(self, removed: &[RemovedRange]) -> Self {
        if removed.is_empty() {
            return self;
        }
        let mut shown: Vec<Entry> = Vec::new();
        let mut before: HashMap<Place, Option<Place>> = HashMap::new();
        for entry in self.oldest_first.iter() {
            if removed.iter().any(|range| range.has(entry.place.position())) {
                // Where the thread stood when the run began.
                before.insert(entry.place, shown.last().map(|last| last.place));
                continue;
            }
            let parent = entry.parent.and_then(|parent| before.get(&parent).copied().unwrap_or(Some(parent)));
            let step = i64::try_from(shown.len()).unwrap_or(i64::MAX) - 1;
            shown.push(Entry { parent, step, ..entry.clone() });
        }
        Self { oldest_first: Arc::new(shown), last: self.last }
    }
}
