//! What holders of a run want of it, shared by all its agents.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Emitter, Inbox};
use crate::message::Message;

/// What holders of a run want of it.
#[derive(Default)]
pub(crate) struct RunControl {
    suspended: AtomicBool,
    /// Whether a person ends the run, who has read what was said so far.
    interrupted: AtomicBool,
    /// Whether something was said to the run that it has not taken in.
    said: watch::Sender<bool>,
    follow_ups: Inbox,
    agents: CancelRegistry,
    /// The run that is given the events of this one too.
    forward: Mutex<Option<Emitter>>,
}

impl RunControl {
    /// Makes every agent of the run stop at its next step.
    pub(crate) fn suspend(&self) {
        self.suspended.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::Relaxed)
    }

    /// A person ends the run.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Notes whether something was said to the run that it has not taken in.
    pub(crate) fn set_said(&self, said: bool) {
        self.said.send_replace(said);
    }

    /// Waits until something was said to the run that it has not taken in.
    pub(crate) async fn said(&self) {
        // The sender lives as long as this does.
        let _ = self.said.subscribe().wait_for(|said| *said).await;
    }

    /// Gives the events of this run to another one too, from now on and as long as that is under way.
    pub(crate) fn forward_to(&self, run: Option<Emitter>) {
        *self.forward.lock().unwrap_or_else(PoisonError::into_inner) = run;
    }

    pub(crate) fn forward(&self) -> Option<Emitter> {
        self.forward.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The agents of the run.
    pub(crate) fn agents(&self) -> &CancelRegistry {
        &self.agents
    }

    /// Keeps a message for when the run would end; says whether it still takes one.
    pub(crate) fn enqueue(&self, message: Message) -> bool {
        self.follow_ups.push(message)
    }

    /// The next message kept; once there is none, none is taken any more.
    pub(crate) fn next_follow_up(&self) -> Option<Message> {
        self.follow_ups.pop_or_close()
    }

    /// The messages kept, which are not for the run any more.
    pub(crate) fn retract(&self) -> VecDeque<Message> {
        self.follow_ups.take()
    }

    /// Takes no message any more.
    pub(crate) fn close(&self) {
        self.follow_ups.close();
    }
}

/// Suspends a run, as [`RunHandle::suspend`](crate::run::RunHandle::suspend) does. It is there before the run makes its first
/// step, so that whoever has it at the [beginning](super::RunStart::suspender) comes late for none. A run that tells nobody of
/// its events is not suspended.
#[derive(Clone, Debug)]
pub struct Suspender(pub(super) Option<Arc<RunControl>>);

impl Suspender {
    /// Makes the run stop at its next step.
    pub fn suspend(&self) {
        if let Some(control) = &self.0 {
            control.suspend();
        }
    }
}

impl std::fmt::Debug for RunControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunControl").field("suspended", &self.suspended).finish_non_exhaustive()
    }
}

/// The agents of a run that are under way, by their paths, each with the token that cancels it and those below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelRegistry(Arc<Mutex<HashMap<Arc<[String]>, CancellationToken>>>);

impl CancelRegistry {
    /// Registers an agent until what this gives is dropped.
    pub(crate) fn register(&self, path: Arc<[String]>, token: CancellationToken) -> impl Drop + Send + use<> {
        struct Registered(CancelRegistry, Arc<[String]>);
        impl Drop for Registered {
            fn drop(&mut self) {
                self.0.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
            }
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone(), token);
        Registered(self.clone(), path)
    }

    /// Cancels the agent with this path and those below it; says whether it was under way.
    pub(crate) fn cancel(&self, path: &[String]) -> bool {
        let token = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some(token) = &token {
            token.cancel();
        }
        token.is_some()
    }
}
