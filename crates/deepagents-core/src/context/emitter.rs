//! Emits the events of a run's agents.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use super::control::{RunControl, Suspender};
use super::observer::RunObserver;
use crate::env::Clock;
use crate::event::{EVENT_VERSION, Event, EventHub, EventKind};
use crate::ids::{LogPosition, RunId};
use crate::panics::lock;
use crate::state::State;

/// Emits events in order without waiting for subscribers. Shared by all agents of a run.
#[derive(Clone)]
pub(crate) struct Emitter {
    run: RunId,
    out: Option<Arc<Out>>,
}

struct Out {
    hub: Arc<EventHub>,
    control: Arc<RunControl>,
    observer: Option<Arc<dyn RunObserver>>,
    /// Locked while observers and the hub receive events, so that all see the same order.
    order: Mutex<Order>,
}

/// The payload of an observer's panic.
type Panic = Box<dyn Any + Send>;

#[derive(Default)]
struct Order {
    /// The sequence number of the next event.
    next: u64,
    /// Whether the run's last event has been emitted.
    ended: bool,
}

impl Emitter {
    /// Creates an emitter, with the hub and the control that the run's handles need. `recent_only` drops old durable
    /// events.
    pub(crate) fn new(
        run: RunId,
        clock: Arc<dyn Clock>,
        observer: Option<Arc<dyn RunObserver>>,
        recent_only: bool,
    ) -> (Self, Arc<EventHub>, Arc<RunControl>) {
        let hub = Arc::new(EventHub::new(run.clone(), clock, recent_only));
        let control: Arc<RunControl> = Arc::default();
        let out = Out { hub: hub.clone(), control: control.clone(), observer, order: Mutex::default() };
        (Self { run, out: Some(Arc::new(out)) }, hub, control)
    }

    /// Creates an emitter that discards all events.
    pub(crate) fn silent(run: RunId) -> Self {
        Self { run, out: None }
    }

    /// Returns whether old durable events are dropped.
    pub(crate) fn is_recent_only(&self) -> bool {
        self.out.as_ref().is_some_and(|out| out.hub.is_recent_only())
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.out.is_none()
    }

    /// Returns whether both emit the events of the same run.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.out.as_ref().map(Arc::as_ptr) == other.out.as_ref().map(Arc::as_ptr)
    }

    /// Returns the control signals of the run's handles.
    pub(crate) fn control(&self) -> Option<&RunControl> {
        self.out.as_ref().map(|out| &*out.control)
    }

    /// Returns a handle that suspends the run.
    pub(crate) fn suspender(&self) -> Suspender {
        Suspender(self.out.as_ref().map(|out| out.control.clone()))
    }

    /// Returns the text of an agent's partial answer.
    pub(crate) fn partial_text(&self, path: &[String]) -> Option<String> {
        self.out.as_ref()?.hub.partial_text(path)
    }

    /// Emits an event. `position` is the position after the record that it stems from, if known.
    pub(crate) fn emit(&self, path: &Arc<[String]>, position: Option<LogPosition>, kind: impl FnOnce() -> EventKind) {
        let Some(out) = &self.out else { return };
        let mut order = lock(&out.order);
        let event = match out.event(&mut order, &self.run, path, position, kind()) {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let events = [event];
        let waiting = out.hub.push(&events, None);
        out.forward_and_resume(order, &events, waiting, None);
    }

    /// Emits several events together with the state as of them, atomically for snapshots. Each comes with the position
    /// after the record that it stems from.
    pub(crate) fn emit_all(
        &self,
        path: &Arc<[String]>,
        kinds: Vec<(Option<LogPosition>, EventKind)>,
        state: Option<State>,
    ) {
        let Some(out) = &self.out else { return };
        let mut order = lock(&out.order);
        let (events, panic) = out.events(&mut order, &self.run, kinds.into_iter().map(|(at, kind)| (path, at, kind)));
        let waiting = out.hub.push(&events, state);
        out.forward_and_resume(order, &events, waiting, panic);
    }

    /// Emits events of a background agent as part of this run. Returns whether the run is still in progress, and the
    /// panic of an observer. The positions are dropped, because they refer to another log.
    fn relay(&self, events: &[Arc<Event>]) -> (bool, Option<Panic>) {
        let Some(out) = &self.out else { return (false, None) };
        let mut order = lock(&out.order);
        if order.ended {
            return (false, None);
        }
        let relayed = events.iter().filter_map(|event| {
            let kind = match &event.kind {
                // This run continues after the other has ended.
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
        (true, panic.or(out.forward_and_wake(order, &relayed, waiting)))
    }
}

impl Out {
    /// Forwards events to the parent run and wakes waiting subscribers, then resumes the panic of an observer.
    fn forward_and_resume(
        &self,
        order: MutexGuard<'_, Order>,
        events: &[Arc<Event>],
        waiting: Vec<Waker>,
        panic: Option<Panic>,
    ) {
        let above = self.forward_and_wake(order, events, waiting);
        if let Some(panic) = panic.or(above) {
            std::panic::resume_unwind(panic);
        }
    }

    /// Forwards events to the parent run and wakes waiting subscribers, even if an observer of the parent panics,
    /// because nothing else would wake them.
    fn forward_and_wake(
        &self,
        order: MutexGuard<'_, Order>,
        events: &[Arc<Event>],
        waiting: Vec<Waker>,
    ) -> Option<Panic> {
        let panic = self.forward(events);
        drop(order);
        waiting.into_iter().for_each(Waker::wake);
        panic
    }

    /// Forwards events to the run that also receives them, until it has ended.
    fn forward(&self, events: &[Arc<Event>]) -> Option<Panic> {
        let above = self.control.forward()?;
        let (is_delivered, panic) = above.relay(events);
        if !is_delivered {
            self.control.stop_forwarding_to(&above);
        }
        panic
    }

    /// Passes events to the observers. If an observer panics, returns the events before that one, and the panic.
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

    /// Passes an event to the observers. Returns `None` after the run's last event.
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
        if let Some(observer) = &self.observer {
            let seen = std::panic::catch_unwind(AssertUnwindSafe(|| observer.event(&event)));
            // A panic fails a running run. At the end, the run can no longer fail, and others must still see that
            // event.
            if let Err(panic) = seen
                && !ends
            {
                return Err(panic);
            }
        }
        // An event that is not emitted takes no sequence number, because readers rely on there being no gaps.
        order.next += 1;
        order.ended = ends;
        Ok(Some(Arc::new(event)))
    }
}
