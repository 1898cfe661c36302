//! The one bounded channel that all events of a run go through.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::observer::SharedObserver;
use crate::event::{EVENT_VERSION, Event, EventKind};

/// How many events may wait for their reader; the run pauses when there are more.
pub(crate) const EVENT_BUFFER: usize = 256;

/// Sends events in order; shared by all agents of a run. The reader's end is in the [`Run`](super::Run).
#[derive(Clone)]
pub(crate) struct Emitter {
    run: Arc<str>,
    out: Option<Arc<Out>>,
    observer: Option<SharedObserver>,
}

struct Out {
    to: mpsc::Sender<Event>,
    /// The next sequence number. Held only while an event is put into a place reserved before, never over an await.
    seq: Mutex<u64>,
}

impl Emitter {
    pub(crate) fn new(run: Arc<str>, observer: Option<SharedObserver>) -> (Self, mpsc::Receiver<Event>) {
        let (to, from) = mpsc::channel(EVENT_BUFFER);
        (Self { run, out: Some(Arc::new(Out { to, seq: Mutex::new(0) })), observer }, from)
    }

    /// For runs whose events nobody wants.
    pub(crate) fn silent(run: Arc<str>) -> Self {
        Self { run, out: None, observer: None }
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.out.is_none()
    }

    pub(crate) async fn emit(&self, path: &Arc<[String]>, kind: impl FnOnce() -> EventKind) {
        let Some(out) = &self.out else { return };
        // The reader may be gone; the run is being cancelled then.
        let Ok(place) = out.to.reserve().await else { return };
        let mut seq = out.seq.lock().unwrap_or_else(PoisonError::into_inner);
        let event = Event { v: EVENT_VERSION, seq: *seq, run: self.run.clone(), path: path.clone(), kind: kind() };
        if let Some(SharedObserver(observer)) = &self.observer {
            observer.event(&event);
        }
        place.send(event);
        *seq += 1;
    }
}
