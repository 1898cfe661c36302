//! The event log of a run. Any number of clients read it, each at its own pace and in its own protocol.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

use super::event::{EventId, Kind, StreamEvent};
use deepagents_core::state::State;

/// The final state or error of a run.
#[derive(Clone, Debug)]
pub(crate) enum Final {
    State(State),
    Error(Value),
}

/// Maximum bytes of chunks, tool progress and custom events kept for slow or reconnecting clients. Beyond it, the
/// oldest are dropped. Complete messages are kept.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// The events of a run so far.
#[derive(Debug)]
pub(crate) struct EventLog {
    inner: Mutex<Inner>,
    changed: watch::Sender<usize>,
}

impl Default for EventLog {
    fn default() -> Self {
        Self { inner: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

#[derive(Debug, Default)]
struct Inner {
    /// `None` for a dropped event.
    events: Vec<Option<Arc<StreamEvent>>>,
    last: Option<Final>,
    closed: bool,
    /// Total bytes of the events that may be dropped.
    bytes: usize,
    /// Index up to which events have been considered for dropping.
    looked_at: usize,
}

/// Returns the bytes of an event that may be dropped, and 0 for others.
fn weight(event: &StreamEvent) -> usize {
    match &event.kind {
        Kind::BlockDelta { delta, .. } => delta.text().len(),
        Kind::ToolProgress { text, .. } => text.len(),
        Kind::Custom { data, .. } => size_of::<StreamEvent>() + approximate(data),
        _ => 0,
    }
}

fn approximate(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(approximate).sum::<usize>() + 8 * list.len(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + approximate(value)).sum(),
        _ => 8,
    }
}

impl super::event::Delta {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Reasoning(text) | Self::Args(text) => text,
        }
    }
}

impl Inner {
    fn push(&mut self, event: StreamEvent) {
        self.bytes += weight(&event);
        self.events.push(Some(Arc::new(event)));
        while self.bytes > MAX_KEPT_BYTES && self.looked_at + 1 < self.events.len() {
            if let Some(slot) = self.events.get_mut(self.looked_at) {
                let weight = slot.as_deref().map_or(0, weight);
                if weight > 0 {
                    self.bytes -= weight;
                    *slot = None;
                }
            }
            self.looked_at += 1;
        }
    }
}

/// The result of reading at a position.
pub(crate) enum Next {
    Event(Arc<StreamEvent>),
    /// The event was dropped.
    Gone,
    Wait,
    End,
}

impl EventLog {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, event: StreamEvent) {
        self.lock().push(event);
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.send_modify(|count| *count += 1);
    }

    /// Stores the final state or error of the run.
    pub(crate) fn set_last(&self, last: Final) {
        self.lock().last = Some(last);
    }

    pub(crate) fn last(&self) -> Option<Final> {
        self.lock().last.clone()
    }

    pub(crate) fn end(&self) -> usize {
        self.lock().events.len()
    }

    /// Returns the index of the first event at or after an id.
    pub(crate) fn from(&self, id: EventId) -> usize {
        let inner = self.lock();
        let at = inner.events.iter().position(|event| event.as_ref().is_some_and(|event| event.id >= id));
        at.unwrap_or(inner.events.len())
    }

    pub(crate) fn next(&self, at: usize) -> Next {
        let inner = self.lock();
        match inner.events.get(at) {
            Some(Some(event)) => Next::Event(event.clone()),
            Some(None) => Next::Gone,
            None if inner.closed => Next::End,
            None => Next::Wait,
        }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<usize> {
        self.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::event::{AgentInfo, Delta};

    #[test]
    fn a_long_run_drops_old_deltas_and_keeps_its_other_events() {
        let log = EventLog::default();
        let mut number = 0;
        let mut push = |kind| {
            number += 1;
            let id = EventId { position: 1, number };
            log.push(StreamEvent { id, at: 0, agent: Arc::new(AgentInfo::default()), step: 0, kind });
        };
        push(Kind::RunStarted);
        for _ in 0..20 {
            let delta = Delta::Text("x".repeat(1 << 20));
            push(Kind::BlockDelta { message: "a".into(), index: 0, delta });
        }
        assert!(log.lock().bytes <= MAX_KEPT_BYTES);
        assert!(matches!(log.next(0), Next::Event(_)), "what is no piece stays");
        assert!(matches!(log.next(1), Next::Gone));
        assert!(matches!(log.next(20), Next::Event(_)));
    }
}
