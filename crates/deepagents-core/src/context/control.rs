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
    /// Whether the process leaves the run where it is.
    left: CancellationToken,
    /// The agents that have something to write down then.
    keepers: watch::Sender<usize>,
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

    /// Whether a person ends the run, or the agent with this path or one above it.
    pub(crate) fn is_interrupted(&self, path: &[String]) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.agents.is_cancelled(path)
    }

    /// Tells the agents of the run that the process leaves it where it is, and waits until they have written down what
    /// is to be kept.
    pub(crate) async fn leave(&self) {
        self.left.cancel();
        // The sender lives as long as this does.
        let _ = self.keepers.subscribe().wait_for(|keepers| *keepers == 0).await;
    }

    /// What an agent of the run listens with that would have something to write down.
    pub(crate) fn leaving(&self) -> Leaving {
        self.keepers.send_modify(|keepers| *keepers += 1);
        Leaving { left: self.left.clone(), keepers: self.keepers.clone() }
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

/// Listens for the end of the process. Whoever leaves the run waits until this is dropped.
pub(crate) struct Leaving {
    left: CancellationToken,
    keepers: watch::Sender<usize>,
}

impl Leaving {
    /// Ends when the process leaves the run where it is; never where nobody listens.
    pub(crate) async fn left(leaving: Option<&Self>) {
        match leaving {
            Some(leaving) => leaving.left.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.keepers.send_modify(|keepers| *keepers = keepers.saturating_sub(1));
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
pub(crate) struct CancelRegistry(Arc<Mutex<HashMap<Arc<[String]>, Registration>>>);

#[derive(Debug)]
struct Registration {
    token: CancellationToken,
    /// Whether it was cancelled by itself.
    is_cancelled: bool,
}

impl CancelRegistry {
    /// Registers an agent until what this gives is dropped.
    pub(crate) fn register(&self, path: Arc<[String]>, token: CancellationToken) -> impl Drop + Send + use<> {
        struct Registered(CancelRegistry, Arc<[String]>);
        impl Drop for Registered {
            fn drop(&mut self) {
                self.0.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
            }
        }
        let registration = Registration { token, is_cancelled: false };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone(), registration);
        Registered(self.clone(), path)
    }

    /// Cancels the agent with this path and those below it; says whether it was under way.
    pub(crate) fn cancel(&self, path: &[String]) -> bool {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(path).map(|agent| {
            agent.is_cancelled = true;
            agent.token.clone()
        });
        if let Some(token) = &found {
            token.cancel();
        }
        found.is_some()
    }

    /// Whether the agent with this path was cancelled by itself, or with one above it.
    fn is_cancelled(&self, path: &[String]) -> bool {
        let agents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        agents.iter().any(|(above, agent)| agent.is_cancelled && path.starts_with(above))
    }
}
