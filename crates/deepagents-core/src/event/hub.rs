//! Where the events of a run come together and are given to its subscribers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use tokio::sync::watch;

use super::live::LiveState;
use super::log::EventLog;
use super::{Event, EventStream, RunSnapshot, Subscribe};
use crate::env::{Clock, Timestamp};
use crate::ids::RunId;
use crate::state::State;

/// How many events are kept for subscribers that are behind. What is older they are given from the durable events.
const RING: usize = 1_024;

/// The events of a run. Nothing waits in here: an event is put into a ring that all subscribers read, each at its place.
pub(crate) struct EventHub {
    run: RunId,
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
    /// Whether the run has begun: it has its thread, or has ended.
    begun: watch::Sender<bool>,
}

#[derive(Default)]
struct Inner {
    log: EventLog,
    /// The last events. Empty while nobody is subscribed.
    ring: VecDeque<Arc<Event>>,
    /// The number of the next event.
    next: u64,
    closed: bool,
    /// The subscribers, and who of them waits for an event.
    subscribers: HashMap<u64, Option<Waker>>,
    /// Names the next subscriber.
    next_subscriber: u64,
    live: LiveState,
}

/// What a subscriber is given.
pub(super) enum Delivery {
    Event(Arc<Event>),
    /// Events up to this number, and how many, are not to be had any more.
    Lagged {
        seq: u64,
        dropped: u64,
    },
}

impl EventHub {
    pub(crate) fn new(run: RunId, clock: Arc<dyn Clock>) -> Self {
        Self { run, clock, inner: Mutex::default(), begun: watch::Sender::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn run(&self) -> &Arc<str> {
        self.run.get()
    }

    /// Gives out events, whose numbers follow on the last one's, and the state as of them. Gives who waits for them, to be
    /// woken once the caller holds no lock.
    #[must_use]
    pub(crate) fn push(&self, events: &[Arc<Event>], state: Option<State>) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut begins = false;
        let mut earlier = None;
        {
            let mut guard = self.lock();
            let inner = &mut *guard;
            for event in events {
                inner.live.follow(event);
                inner.next = event.seq + 1;
                inner.closed |= event.kind.is_end();
                if event.kind.is_durable() {
                    inner.log.append(event.clone());
                }
                if inner.subscribers.is_empty() {
                    continue;
                }
                if inner.ring.len() == RING {
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
        // What takes time is done when others can go on.
        drop(earlier);
        if begins {
            self.begun.send_replace(true);
        }
        wakers
    }

    /// The text of the answer that the model of an agent is giving.
    pub(crate) fn said(&self, path: &[String]) -> Option<String> {
        self.lock().live.said(path)
    }

    /// Nothing happens any more.
    pub(crate) fn close(&self) {
        let wakers: Vec<Waker> = {
            let mut inner = self.lock();
            inner.closed = true;
            inner.subscribers.values_mut().filter_map(Option::take).collect()
        };
        self.begun.send_replace(true);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn subscribe(self: &Arc<Self>, from: Subscribe) -> EventStream {
        let mut inner = self.lock();
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
        let mut inner = self.lock();
        inner.subscribers.remove(&id);
        let unread = if inner.subscribers.is_empty() { std::mem::take(&mut inner.ring) } else { VecDeque::new() };
        drop(inner);
        drop(unread);
    }

    /// Gives the event with this number, or says what became of it.
    pub(super) fn poll(&self, id: u64, next: u64, waker: &Waker) -> Poll<Option<Delivery>> {
        let mut inner = self.lock();
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

    /// Waits until the run has begun, and says where it is.
    pub(crate) async fn snapshot(&self) -> RunSnapshot {
        // The sender lives as long as this does.
        let _ = self.begun.subscribe().wait_for(|begun| *begun).await;
        let inner = self.lock();
        inner.live.snapshot(inner.next.saturating_sub(1))
    }
}

impl Inner {
    fn delivery(&self, next: u64) -> Delivery {
        // By their numbers: nothing says that none is missing.
        let at = self.ring.partition_point(|event| event.seq < next);
        let following = self.ring.get(at);
        if let Some(event) = following.filter(|event| at > 0 || event.seq == next) {
            return Delivery::Event(event.clone());
        }
        let in_ring = following.map_or(self.next, |event| event.seq);
        match self.log.since(next).first() {
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
