//! The counts, stored with the thread.

use std::collections::BTreeMap;

use deepagents_core::state::{Channel, ChannelError, Sharing};
use serde::{Deserialize, Serialize};

/// The calls of a thread and of its current run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Count {
    /// Calls of the thread, including those of the run.
    pub(super) thread: u64,
    /// The run whose calls are counted.
    pub(super) run: String,
    /// Calls of that run.
    pub(super) in_run: u64,
}

impl Count {
    /// Returns the count for a run: a new run has made no calls.
    pub(super) fn of_run(self, run: &str) -> Self {
        if self.run == run { self } else { Self { run: run.to_owned(), in_run: 0, ..self } }
    }
}

/// Counts by key. An update replaces the counts that it contains; one without a run sets only the count of the thread,
/// because the run that waits there continues its own.
pub(super) type Counts = BTreeMap<String, Count>;

/// Calls so far: model calls under an empty key, tool calls under `tool:NAME`.
#[derive(Debug)]
pub(super) struct CallCounts;

impl Channel for CallCounts {
    const NAME: &'static str = "call_counts";
    const SHARING: Sharing<Counts, Counts> = Sharing::private();
    const FROM_INPUT: bool = false;
    type Value = Counts;
    type Update = Counts;

    fn reduce(value: &mut Counts, update: Counts) -> Result<(), ChannelError> {
        for (key, count) in update {
            let known = value.entry(key).or_default();
            *known = if count.run.is_empty() { Count { thread: count.thread, ..known.clone() } } else { count };
        }
        Ok(())
    }
}
