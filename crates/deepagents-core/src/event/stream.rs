//! Event streams.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::hub::{Delivery, EventHub};
use super::{EVENT_VERSION, Event, EventKind};

/// Where a subscription starts.
///
/// ```
/// use deepagents_core::event::{Event, Subscribe};
/// /// Where a client goes on that comes back, with what it has seen.
/// fn again(seen: Option<&Event>) -> Subscribe {
///     seen.map_or(Subscribe::Start, |last| Subscribe::After(last.seq))
/// }
/// assert_eq!(again(None), Subscribe::Start);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subscribe {
    /// At the next event.
    Now,
    /// At the first event of the run. Of earlier events, the subscriber receives the durable ones.
    Start,
    /// After the event with this sequence number, for example the last one seen before a connection broke.
    After(u64),
}

/// A subscriber's stream of a run's events. It ends with the run.
///
/// A buffer of the last 1,024 events is shared by all subscribers. A subscriber that lags further receives the
/// [durable](EventKind::is_durable) events it has missed, in order, and an [`EventKind::Lagged`] in place of others.
///
/// ```
/// use deepagents_core::event::{EventKind, Subscribe};
/// use deepagents_core::run::RunHandle;
/// use futures_util::StreamExt;
/// async fn print_answer(run: &RunHandle) {
///     let mut events = run.subscribe(Subscribe::Now);
///     while let Some(event) = events.next().await {
///         if let EventKind::TextDelta { text, .. } = event.kind {
///             print!("{text}");
///         }
///     }
/// }
/// ```
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct EventStream {
    hub: Arc<EventHub>,
    id: u64,
    /// The sequence number of the next event to return.
    next: u64,
}

impl EventStream {
    pub(super) fn new(hub: Arc<EventHub>, id: u64, next: u64) -> Self {
        Self { hub, id, next }
    }

    fn lagged(&self, seq: u64, dropped: u64) -> Event {
        Event {
            v: EVENT_VERSION,
            seq,
            run: self.hub.run().clone(),
            path: Arc::from([]),
            at: self.hub.now(),
            attempt: 0,
            position: None,
            kind: EventKind::Lagged { dropped },
        }
    }
}

impl Stream for EventStream {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        // Exempt from Tokio's cooperative budget: a reader forced to yield would lag behind a run on the same thread,
        // which yields less often.
        let delivery = ready!(self.hub.poll(self.id, self.next, cx.waker()));
        Poll::Ready(delivery.map(|delivery| {
            let event = match delivery {
                Delivery::Event(event) => Arc::unwrap_or_clone(event),
                Delivery::Lagged { seq, dropped } => self.lagged(seq, dropped),
            };
            self.next = event.seq.saturating_add(1);
            event
        }))
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.hub.unsubscribe(self.id);
    }
}
