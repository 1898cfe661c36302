//! How the agents of a run tell what happens.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::control::{RunControl, Suspender};
use super::observer::SharedObserver;
use crate::env::Clock;
use crate::event::{EVENT_VERSION, Event, EventHub, EventKind};
use crate::ids::{LogPosition, RunId};
use crate::state::State;

/// Gives out events in order, without waiting for anybody; shared by all agents of a run.
#[derive(Clone)]
pub(crate) struct Emitter {
    run: RunId,
    out: Option<Arc<Out>>,
}

struct Out {
    hub: Arc<EventHub>,
    control: Arc<RunControl>,
    observer: Option<SharedObserver>,
    /// Held while observers and the hub are given events, so that all see the same order.
    order: Mutex<Order>,
}

/// What an observer panicked with.
type Panic = Box<dyn Any + Send>;

#[derive(Default)]
struct Order {
    /// The number of the next event.
    next: u64,
    /// Whether the run has told its end.
    ended: bool,
}

impl Emitter {
    /// Gives what the holders of the run are to have beside it.
    pub(crate) fn new(
        run: RunId,
        clock: Arc<dyn Clock>,
        observer: Option<SharedObserver>,
    ) -> (Self, Arc<EventHub>, Arc<RunControl>) {
        let hub = Arc::new(EventHub::new(run.clone(), clock));
        let control: Arc<RunControl> = Arc::default();
        let out = Out { hub: hub.clone(), control: control.clone(), observer, order: Mutex::default() };
        (Self { run, out: Some(Arc::new(out)) }, hub, control)
    }

    /// For runs whose events nobody wants.
    pub(crate) fn silent(run: RunId) -> Self {
        Self { run, out: None }
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.out.is_none()
    }

    /// What holders of the run want of it.
    pub(crate) fn control(&self) -> Option<&RunControl> {
        self.out.as_ref().map(|out| &*out.control)
    }

    /// Suspends the run.
    pub(crate) fn suspender(&self) -> Suspender {
        Suspender(self.out.as_ref().map(|out| out.control.clone()))
    }

    /// The text of the answer that the model of an agent is giving.
    pub(crate) fn said(&self, path: &[String]) -> Option<String> {
        self.out.as_ref()?.hub.said(path)
    }

    /// Tells one thing that happened. `position` is where the record ends that it stems from, if that is known.
    pub(crate) fn emit(&self, path: &Arc<[String]>, position: Option<LogPosition>, kind: impl FnOnce() -> EventKind) {
        let Some(out) = &self.out else { return };
        let mut order = out.lock();
        let event = match out.event(&mut order, &self.run, path, position, kind()) {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let events = [event];
        let waiting = out.hub.push(&events, None);
        out.give_on(order, &events, waiting, None);
    }

    /// Tells several things together with the state as of them, so that nobody sees a part of it; each with the position
    /// behind the record that it stems from.
    pub(crate) fn emit_all(
        &self,
        path: &Arc<[String]>,
        kinds: Vec<(Option<LogPosition>, EventKind)>,
        state: Option<State>,
    ) {
        let Some(out) = &self.out else { return };
        let mut order = out.lock();
        let (events, panic) = out.events(&mut order, &self.run, kinds.into_iter().map(|(at, kind)| (path, at, kind)));
        let waiting = out.hub.push(&events, state);
        out.give_on(order, &events, waiting, panic);
    }

    /// Gives out events of an agent in the background as part of this run; says whether the run is still under way, and
    /// what an observer panicked with. Where their records are is not told, since that is another log.
    fn relay(&self, events: &[Arc<Event>]) -> (bool, Option<Panic>) {
        let Some(out) = &self.out else { return (false, None) };
        let mut order = out.lock();
        if order.ended {
            return (false, None);
        }
        let relayed = events.iter().filter_map(|event| {
            let kind = match &event.kind {
                // The run goes on when that one has ended.
                EventKind::RunStarted { .. } | EventKind::RunFinished { .. } => return None,
                EventKind::RunFailed { kind, error } => {
                    EventKind::AgentFailed { kind: kind.clone(), error: error.clone() }
                }
                other => other.clone(),
            };
            Some((&event.path, None, kind))
        });
        let (relayed, panic) = out.events(&mut order, &self.run, relayed);
        let waiting = out.hub.push(&relayed, None);
        (true, panic.or(out.give_above(order, &relayed, waiting)))
    }
}

impl Out {
    fn lock(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives events to the run above and wakes who waits for them here, then goes on with the panic of an observer.
    fn give_on(&self, order: MutexGuard<'_, Order>, events: &[Arc<Event>], waiting: Vec<Waker>, panic: Option<Panic>) {
        let above = self.give_above(order, events, waiting);
        if let Some(panic) = panic.or(above) {
            std::panic::resume_unwind(panic);
        }
    }

    /// Gives events to the run above and wakes who waits for them here, whatever an observer above panics with: nobody
    /// else wakes them.
    fn give_above(&self, order: MutexGuard<'_, Order>, events: &[Arc<Event>], waiting: Vec<Waker>) -> Option<Panic> {
        let panic = self.forward(events);
        drop(order);
        waiting.into_iter().for_each(Waker::wake);
        panic
    }

    /// Gives events to the run that wants them too, until that has ended.
    fn forward(&self, events: &[Arc<Event>]) -> Option<Panic> {
        let (goes_on, panic) = self.control.forward()?.relay(events);
        if !goes_on {
            self.control.forward_to(None);
        }
        panic
    }

    /// Events as observers have seen them, up to one that an observer panics at, and that panic.
    fn events<'a>(
        &self,
        order: &mut Order,
        run: &RunId,
        all: impl Iterator<Item = (&'a Arc<[String]>, Option<LogPosition>, EventKind)>,
    ) -> (Vec<Arc<Event>>, Option<Panic>) {
        let mut events = Vec::new();
        for (path, position, kind) in all {
            match self.event(order, run, path, position, kind) {
                Ok(event) => events.extend(event),
                Err(panic) => return (events, Some(panic)),
            }
        }
        (events, None)
    }

    /// The event as observers have seen it; nothing once the run has told its end.
    fn event(
        &self,
        order: &mut Order,
        run: &RunId,
        path: &Arc<[String]>,
        position: Option<LogPosition>,
        kind: EventKind,
    ) -> Result<Option<Arc<Event>>, Panic> {
        if order.ended {
            return Ok(None);
        }
        let ends = kind.is_end();
        let event = Event {
            v: EVENT_VERSION,
            seq: order.next,
            run: run.get().clone(),
            path: path.clone(),
            at: self.hub.now(),
            attempt: run.attempt(),
            position,
            kind,
        };
        if let Some(SharedObserver(observer)) = &self.observer {
            let seen = std::panic::catch_unwind(AssertUnwindSafe(|| observer.event(&event)));
            // It fails a run under way. What is over cannot be failed any more, and others are to be told of its end.
            if let Err(panic) = seen
                && !ends
            {
                return Err(panic);
            }
        }
        // An event that is never told has no number: those who read count on it that none is missing.
        order.next += 1;
        order.ended = ends;
        Ok(Some(Arc::new(event)))
    }
}
