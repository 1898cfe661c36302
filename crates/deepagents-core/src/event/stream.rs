//! Reading the events of a run.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::hub::{Delivery, EventHub};
use super::{EVENT_VERSION, Event, EventKind};

/// Where a subscriber begins.
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
    /// With the next event.
    Now,
    /// With the first event of the run. Of what has happened already it is given the durable events.
    Start,
    /// With the event after the one of this number, such as the last that was seen before a connection broke.
    After(u64),
}

/// The events of a run as one subscriber sees them; it ends with the run.
///
/// The last 1,024 events are kept for all subscribers together. One that is further behind is given the
/// [durable](EventKind::is_durable) events it has missed, in order, and an [`EventKind::Lagged`] where others were.
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
    /// The number of the event to be given next.
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
        // Without a part in tokio's budget: a reader that is made to pause falls behind a run on its thread, which has
        // to pause less often.
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
