//! The durable events of a run.

use std::sync::Arc;

use super::Event;

/// The durable events of a run, in order. They stay in memory as long as a handle of the run exists.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    events: Vec<Arc<Event>>,
}

impl EventLog {
    /// Appends an event.
    pub(super) fn append(&mut self, event: Arc<Event>) {
        self.events.push(event);
    }

    /// Returns the events from a sequence number onwards.
    pub(super) fn since(&self, seq: u64) -> &[Arc<Event>] {
        let from = self.events.partition_point(|event| event.seq < seq);
        self.events.get(from..).unwrap_or_default()
    }
}
