//! Control signals from a run's handles, shared by all its agents.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Emitter, Inbox};
use crate::panics::lock;

/// Control signals from a run's handles.
#[derive(Default)]
pub(crate) struct RunControl {
    suspended: AtomicBool,
    /// Whether a person who was reading the answer ends the run.
    interrupted: AtomicBool,
    /// Cancelled when the process abandons the run.
    abandoned: CancellationToken,
    /// Number of agents that must save their output in that case.
    keepers: watch::Sender<usize>,
    pub(crate) inbox: Inbox,
    pub(crate) agents: CancelRegistry,
    /// The run that also receives this run's events.
    forward: Mutex<Option<Emitter>>,
    /// The background runs whose events this run receives, including some that have ended.
    background: Mutex<Vec<Weak<RunControl>>>,
}

impl RunControl {
    /// Makes every agent of the run stop at its next step.
    pub(crate) fn suspend(&self) {
        self.suspended.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::Relaxed)
    }

    /// Records that a person ends the run.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }

    /// Returns whether a person ends the run, or the agent with this path or one above it.
    pub(crate) fn is_interrupted(&self, path: &[String]) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.agents.is_cancelled(path)
    }

    /// Tells the run's agents that the process abandons the run, and waits until they have saved their output.
    pub(crate) async fn abandon(&self) {
        self.abandoned.cancel();
        // The sender lives as long as `self`.
        let _ = self.keepers.subscribe().wait_for(|keepers| *keepers == 0).await;
    }

    /// Registers an agent of the run that must save its output when the process abandons the run.
    pub(crate) fn abandon_guard(&self) -> AbandonGuard {
        self.keepers.send_modify(|keepers| *keepers += 1);
        AbandonGuard { abandoned: self.abandoned.clone(), keepers: self.keepers.clone() }
    }

    /// Cancels the agents with this path and those below them: agents of this run, and of the background runs whose
    /// events it receives. Returns whether one was running.
    pub(crate) fn cancel_agent(&self, path: &[String]) -> bool {
        let mut found = self.agents.cancel(path);
        // Until it has loaded its thread, a resumed background run has the empty path, like every main agent.
        if !path.is_empty() {
            let background: Vec<_> = lock(&self.background).iter().filter_map(Weak::upgrade).collect();
            for run in background {
                found |= run.cancel_agent(path);
            }
        }
        found
    }

    /// Forwards the events of this run to another one from now on, for as long as that is in progress.
    pub(crate) fn forward_to(self: &Arc<Self>, run: &Emitter) {
        let earlier = lock(&self.forward).replace(run.clone());
        if !earlier.is_some_and(|earlier| earlier.is_same(run))
            && let Some(above) = run.control()
        {
            let mut background = lock(&above.background);
            background.retain(|run| run.strong_count() > 0);
            background.push(Arc::downgrade(self));
        }
    }

    /// Stops forwarding to a run that has ended, unless another one has taken its place.
    pub(super) fn stop_forwarding_to(&self, ended: &Emitter) {
        lock(&self.forward).take_if(|run| run.is_same(ended));
    }

    pub(crate) fn forward(&self) -> Option<Emitter> {
        lock(&self.forward).clone()
    }
}

/// Waits for the process to abandon the run. `RunControl::abandon` waits until this is dropped.
pub(crate) struct AbandonGuard {
    abandoned: CancellationToken,
    keepers: watch::Sender<usize>,
}

impl AbandonGuard {
    /// Completes when the process abandons the run; never for `None`.
    pub(crate) async fn abandoned(guard: Option<&Self>) {
        match guard {
            Some(guard) => guard.abandoned.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for AbandonGuard {
    fn drop(&mut self) {
        self.keepers.send_modify(|keepers| *keepers = keepers.saturating_sub(1));
    }
}

/// Suspends a run, as [`RunHandle::suspend`](crate::run::RunHandle::suspend) does. It exists before the run's first
/// step, so that an observer that receives it at the [start](super::RunStart::suspender) can stop the run before any
/// step. A run that emits no events cannot be suspended.
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

/// The running agents of a run, each with the token that cancels it and those below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelRegistry(Arc<Mutex<Registrations>>);

#[derive(Debug, Default)]
struct Registrations {
    next: u64,
    /// By number, because a call may run several agents at one path.
    agents: BTreeMap<u64, Registration>,
}

#[derive(Debug)]
struct Registration {
    path: Arc<[String]>,
    token: CancellationToken,
    /// Whether the agent itself was cancelled.
    is_cancelled: bool,
}

impl CancelRegistry {
    /// Registers an agent until the returned guard is dropped.
    pub(crate) fn register(&self, path: Arc<[String]>, token: CancellationToken) -> Registered {
        let mut all = lock(&self.0);
        let number = all.next;
        all.next += 1;
        all.agents.insert(number, Registration { path, token, is_cancelled: false });
        Registered { all: self.clone(), number }
    }

    /// Cancels the agents with this path and those below them. Returns whether one was running.
    pub(crate) fn cancel(&self, path: &[String]) -> bool {
        let mut tokens = Vec::new();
        for agent in lock(&self.0).agents.values_mut().filter(|agent| *agent.path == *path) {
            agent.is_cancelled = true;
            tokens.push(agent.token.clone());
        }
        // Not under the lock, because whoever is woken may end.
        tokens.iter().for_each(CancellationToken::cancel);
        !tokens.is_empty()
    }

    /// Returns whether the agent with this path, or one above it, was cancelled.
    fn is_cancelled(&self, path: &[String]) -> bool {
        lock(&self.0).agents.values().any(|agent| agent.is_cancelled && path.starts_with(&agent.path))
    }
}

/// Keeps an agent in the registry until it is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    all: CancelRegistry,
    number: u64,
}

impl Registered {
    /// Changes the path by which the agent is found.
    pub(crate) fn set_path(&self, path: Arc<[String]>) {
        if let Some(agent) = lock(&self.all.0).agents.get_mut(&self.number) {
            agent.path = path;
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock(&self.all.0).agents.remove(&self.number);
    }
}
