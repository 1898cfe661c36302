//! The hub that distributes a run's events to its subscribers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use tokio::sync::watch;

use super::live::LiveState;
use super::{Event, EventStream, RunSnapshot, Subscribe};
use crate::env::{Clock, Timestamp};
use crate::ids::RunId;
use crate::panics::lock;
use crate::state::State;

/// Number of events buffered for lagging subscribers. Older events come from the log of durable events, which is as long
/// at most if a run keeps recent events only.
const MAX_BUFFERED_EVENTS: usize = 1_024;

/// The events of a run. Sending never waits: events go into a ring buffer that each subscriber reads at its own
/// position.
pub(crate) struct EventHub {
    run: RunId,
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
    /// Whether old durable events are dropped.
    recent_only: bool,
    /// Whether the run has started: it has loaded its thread, or has ended.
    started: watch::Sender<bool>,
}

#[derive(Default)]
struct Inner {
    /// The durable events, in order. They stay in memory as long as a handle of the run exists, or only the latest do.
    log: VecDeque<Arc<Event>>,
    /// The latest events. Empty while there are no subscribers.
    ring: VecDeque<Arc<Event>>,
    /// The sequence number of the next event.
    next: u64,
    closed: bool,
    /// The subscribers, each with its waker if it is waiting.
    subscribers: HashMap<u64, Option<Waker>>,
    /// The id of the next subscriber.
    next_subscriber: u64,
    live: LiveState,
}

/// What a subscriber receives.
pub(super) enum Delivery {
    Event(Arc<Event>),
    /// `dropped` events up to the sequence number `seq` are no longer available.
    Lagged {
        seq: u64,
        dropped: u64,
    },
}

impl EventHub {
    pub(crate) fn new(run: RunId, clock: Arc<dyn Clock>, recent_only: bool) -> Self {
        Self { run, clock, inner: Mutex::default(), recent_only, started: watch::Sender::new(false) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns whether old durable events are dropped.
    pub(crate) fn is_recent_only(&self) -> bool {
        self.recent_only
    }

    pub(super) fn run(&self) -> &Arc<str> {
        self.run.get()
    }

    /// Distributes consecutive events, and the state as of them. Returns the wakers of waiting subscribers, to be woken
    /// when the caller holds no lock.
    #[must_use]
    pub(crate) fn push(&self, events: &[Arc<Event>], state: Option<State>) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut begins = false;
        let mut earlier = None;
        {
            let mut guard = lock(&self.inner);
            let inner = &mut *guard;
            for event in events {
                inner.live.follow(event);
                inner.next = event.seq + 1;
                inner.closed |= event.kind.is_end();
                if event.kind.is_durable() {
                    if self.recent_only && inner.log.len() == MAX_BUFFERED_EVENTS {
                        inner.log.pop_front();
                    }
                    inner.log.push_back(event.clone());
                }
                if inner.subscribers.is_empty() {
                    continue;
                }
                if inner.ring.len() == MAX_BUFFERED_EVENTS {
                    inner.ring.pop_front();
                }
                inner.ring.push_back(event.clone());
            }
            if let Some(state) = state {
                begins = inner.live.state.is_none();
                earlier = inner.live.state.replace(state);
            }
            if !events.is_empty() {
                wakers.extend(inner.subscribers.values_mut().filter_map(Option::take));
            }
        }
        // Drop the old state outside the lock, because that may take time.
        drop(earlier);
        if begins {
            self.started.send_replace(true);
        }
        wakers
    }

    /// Returns the text of an agent's partial answer.
    pub(crate) fn partial_text(&self, path: &[String]) -> Option<String> {
        lock(&self.inner).live.partial_text(path)
    }

    /// Closes the hub: no further events follow.
    pub(crate) fn close(&self) {
        let wakers: Vec<Waker> = {
            let mut inner = lock(&self.inner);
            inner.closed = true;
            inner.subscribers.values_mut().filter_map(Option::take).collect()
        };
        self.started.send_replace(true);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn subscribe(self: &Arc<Self>, from: Subscribe) -> EventStream {
        let mut inner = lock(&self.inner);
        let id = inner.next_subscriber;
        inner.next_subscriber += 1;
        inner.subscribers.insert(id, None);
        let next = match from {
            Subscribe::Start => 0,
            Subscribe::Now => inner.next,
            Subscribe::After(seq) => seq.saturating_add(1).min(inner.next),
        };
        drop(inner);
        EventStream::new(self.clone(), id, next)
    }

    pub(super) fn unsubscribe(&self, id: u64) {
        let mut inner = lock(&self.inner);
        inner.subscribers.remove(&id);
        let unread = if inner.subscribers.is_empty() { std::mem::take(&mut inner.ring) } else { VecDeque::new() };
        drop(inner);
        drop(unread);
    }

    /// Returns the event with this sequence number, or what was dropped in its place.
    pub(super) fn poll(&self, id: u64, next: u64, waker: &Waker) -> Poll<Option<Delivery>> {
        let mut inner = lock(&self.inner);
        if next < inner.next {
            return Poll::Ready(Some(inner.delivery(next)));
        }
        if inner.closed {
            return Poll::Ready(None);
        }
        if let Some(place) = inner.subscribers.get_mut(&id) {
            match place {
                Some(known) => known.clone_from(waker),
                None => *place = Some(waker.clone()),
            }
        }
        Poll::Pending
    }

    /// Waits until the run has started, and returns a snapshot.
    pub(crate) async fn snapshot(&self) -> RunSnapshot {
        // The sender lives as long as `self`.
        let _ = self.started.subscribe().wait_for(|started| *started).await;
        let inner = lock(&self.inner);
        inner.live.snapshot(inner.next.saturating_sub(1))
    }
}

impl Inner {
    fn delivery(&self, next: u64) -> Delivery {
        // Search by sequence number: the ring need not be contiguous.
        let at = self.ring.partition_point(|event| event.seq < next);
        let following = self.ring.get(at);
        if let Some(event) = following.filter(|event| at > 0 || event.seq == next) {
            return Delivery::Event(event.clone());
        }
        let in_ring = following.map_or(self.next, |event| event.seq);
        match self.log.get(self.log.partition_point(|event| event.seq < next)) {
            Some(event) if event.seq == next => Delivery::Event(event.clone()),
            durable => {
                let until = durable.map_or(in_ring, |event| event.seq.min(in_ring));
                Delivery::Lagged { seq: until.saturating_sub(1).max(next), dropped: until.saturating_sub(next) }
            }
        }
    }
}

impl std::fmt::Debug for EventHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventHub").field("run", self.run.get()).finish_non_exhaustive()
    }
}
