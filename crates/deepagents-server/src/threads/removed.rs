//! Checkpoints of runs that were rolled back. They stay in the append-only log but are hidden from clients.

use std::collections::HashMap;
use std::sync::Arc;

use deepagents_core::journal::LogPosition;
use serde::{Deserialize, Serialize};

use super::checkpoints::{Entries, Entry, Place};

/// A log range hidden from clients.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RemovedRange {
    /// The range begins after this position.
    after: LogPosition,
    /// The range ends with this position.
    until: LogPosition,
}

impl RemovedRange {
    fn has(self, position: LogPosition) -> bool {
        self.after < position && position <= self.until
    }

    /// Adds a range, merging it with overlapping ones.
    pub(crate) fn add(removed: &mut Vec<Self>, after: LogPosition, until: LogPosition) {
        removed.retain(|earlier| earlier.after < after);
        match removed.last_mut().filter(|last| after <= last.until) {
            Some(last) => last.until = until,
            None => removed.push(Self { after, until }),
        }
    }
}

impl Entries {
    /// Removes the checkpoints in hidden ranges. A checkpoint whose parent is removed gets the last visible checkpoint
    /// before it as its parent.
    pub(super) fn without(self, removed: &[RemovedRange]) -> Self {
        if removed.is_empty() {
            return self;
        }
        let mut shown: Vec<Entry> = Vec::new();
        let mut before: HashMap<Place, Option<Place>> = HashMap::new();
        for entry in self.oldest_first.iter() {
            if removed.iter().any(|range| range.has(entry.place.position())) {
                // The checkpoint from which the rolled-back run started.
                before.insert(entry.place, shown.last().map(|last| last.place));
                continue;
            }
            let parent = entry.parent.and_then(|parent| before.get(&parent).copied().unwrap_or(Some(parent)));
            let step = i64::try_from(shown.len()).unwrap_or(i64::MAX) - 1;
            shown.push(Entry { parent, step, ..entry.clone() });
        }
        Self { oldest_first: Arc::new(shown), ..self }
    }
}
