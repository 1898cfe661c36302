//! The event log of a run. Any number of clients read it, each at its own pace and in its own protocol.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use deepagents_core::state::State;
use serde_json::Value;
use tokio::sync::watch;

use super::event::{EventId, Kind, StreamEvent};
use crate::runs::LiveRun;

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
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
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

impl EventLog {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, event: StreamEvent) {
        self.lock().push(event);
        self.changed.send_replace(());
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.send_replace(());
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

    /// Returns the next event that was not dropped, and `None` at the end of the run. Moves `at` behind it.
    fn next(&self, at: &mut usize) -> Poll<Option<Arc<StreamEvent>>> {
        let inner = self.lock();
        while let Some(event) = inner.events.get(*at) {
            *at += 1;
            if let Some(event) = event {
                return Poll::Ready(Some(event.clone()));
            }
        }
        if inner.closed { Poll::Ready(None) } else { Poll::Pending }
    }
}

/// A reader's position in the events of a run.
pub(crate) struct EventCursor {
    pub(crate) run: Arc<LiveRun>,
    at: usize,
    changed: watch::Receiver<()>,
}

impl EventCursor {
    /// Creates a cursor before the event with this index.
    pub(crate) fn new(run: Arc<LiveRun>, at: usize) -> Self {
        let changed = run.log.changed.subscribe();
        Self { run, at, changed }
    }

    /// Returns the next event if there is one already.
    pub(crate) fn next_now(&mut self) -> Option<Arc<StreamEvent>> {
        match self.run.log.next(&mut self.at) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }

    /// Returns the next event, or `None` at the end of the run. Cancel safe: dropping the future loses no event.
    pub(crate) async fn next(&mut self) -> Option<Arc<StreamEvent>> {
        loop {
            self.changed.borrow_and_update();
            if let Poll::Ready(event) = self.run.log.next(&mut self.at) {
                return event;
            }
            // The sender lives as long as `run`.
            let _ = self.changed.changed().await;
        }
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
        let mut at = 0;
        let mut next = || match log.next(&mut at) {
            Poll::Ready(event) => event.map(|event| event.id.number),
            Poll::Pending => None,
        };
        let left: Vec<u32> = std::iter::from_fn(&mut next).collect();
        assert_eq!(left.first(), Some(&1), "an event that is not a delta stays");
        assert!((2..=20).contains(&left.len()) && left[1] > 2, "{left:?}");
        assert_eq!(left.last(), Some(&21));
    }
}
