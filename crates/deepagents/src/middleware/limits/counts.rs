//! What has been counted, kept with the thread.

use std::collections::BTreeMap;

use deepagents_core::state::{Channel, ChannelError, Sharing};
use serde::{Deserialize, Serialize};

/// Calls of a thread and of its present run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Count {
    /// Calls of the thread, those of the run included.
    pub(super) thread: u64,
    /// The run whose calls are counted.
    pub(super) run: String,
    /// Calls of that run.
    pub(super) in_run: u64,
}

impl Count {
    /// The same for a run: one that is new has made no calls.
    pub(super) fn of_run(self, run: &str) -> Self {
        if self.run == run { self } else { Self { run: run.to_owned(), in_run: 0, ..self } }
    }
}

/// Counts by what is counted. An update replaces the counts that it names.
pub(super) type Counts = BTreeMap<String, Count>;

/// Calls so far: of the model under an empty name, and of tools under `tool:NAME`.
#[derive(Debug)]
pub(super) struct CallCounts;

impl Channel for CallCounts {
    const NAME: &'static str = "call_counts";
    const SHARING: Sharing<Counts, Counts> = Sharing::private();
    const FROM_INPUT: bool = false;
    type Value = Counts;
    type Update = Counts;

    fn reduce(value: &mut Counts, update: Counts) -> Result<(), ChannelError> {
        value.extend(update);
        Ok(())
    }
}
