//! Handles of a run that do not own it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::{Outcome, RunError};
use crate::context::{Context, LiveRun, RunControl};
use crate::error::Error;
use crate::event::{EventHub, EventStream, RunSnapshot, Subscribe};
use crate::ids::{RunId, ThreadId};
use crate::message::Message;
use crate::status::FinishReason;

/// Time limit for saving the partial output of tool calls when a run is abandoned.
const SAVE_TIMEOUT: Duration = Duration::from_millis(500);

/// Time limit for an aborted run to drop what it holds.
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// The result of a run, once it has ended.
pub(super) type Ended = Option<Result<Outcome, Box<RunError>>>;

/// A handle of a run that does not own it. Any number of handles can steer the run, subscribe to it and await its end.
/// Dropping one has no effect. The run is cancelled when its last [`Run`](super::Run) is dropped, unless it was
/// [detached](super::Run::detach).
///
/// ```
/// # async fn f(agent: deepagents_core::agent::Agent) -> Result<(), Box<dyn std::error::Error>> {
/// use deepagents_core::event::Subscribe;
/// use futures_util::StreamExt;
///
/// let run = agent.run("Summarise README.md").detach();
/// let mut events = run.subscribe(Subscribe::Start);
/// tokio::spawn(async move {
///     while let Some(event) = events.next().await {
///         println!("{}", event.seq);
///     }
/// });
/// run.enqueue("Now translate it.");
/// println!("{}", run.outcome().await?.text());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct RunHandle {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) id: RunId,
    pub(super) thread: Option<ThreadId>,
    pub(super) hub: Arc<EventHub>,
    pub(super) control: Arc<RunControl>,
    pub(super) cancel: CancellationToken,
    pub(super) ended: watch::Receiver<Ended>,
    /// Aborts the run's task immediately.
    pub(super) abort: OnceLock<AbortHandle>,
    /// Number of [`Run`](super::Run) values that own it.
    pub(super) owners: AtomicUsize,
    /// Whether it continues without an owner.
    pub(super) detached: AtomicBool,
}

impl RunHandle {
    /// Returns the run's id. A run that resumes one left by another process has its own id until it has read the
    /// thread, and the earlier run's id from then on.
    pub fn id(&self) -> &str {
        self.inner.id.get()
    }

    /// Returns the run's thread, if it has one.
    pub fn thread(&self) -> Option<&str> {
        self.inner.thread.as_deref()
    }

    /// Sends the model a message, delivered with its next call. A run that was about to finish makes another model call
    /// to deliver it. Returns `false` if the run has already ended.
    ///
    /// A run that halts, fails, reaches a limit or is ended by a middleware makes no further model call, so it does not
    /// deliver the message. Unless the run has already taken the message, [`retract`](Self::retract) returns it. If the
    /// run is suspended or waits for a decision, the run that resumes it delivers the message.
    pub fn steer(&self, message: impl Into<Message>) -> bool {
        self.inner.control.inbox.steer(message.into())
    }

    /// Enqueues a follow-up: when the run would finish, the message becomes the next user message, and the run
    /// continues. Several follow-ups are processed one after the other. Returns `false` if the run takes no more.
    ///
    /// As with [`steer`](Self::steer), a run that ends otherwise leaves its follow-ups undelivered. If the run is
    /// suspended or waits for a decision, the run that resumes it takes them.
    pub fn enqueue(&self, message: impl Into<Message>) -> bool {
        self.inner.control.inbox.enqueue(message.into())
    }

    /// Takes back the messages that are not yet part of the conversation: first those sent with [`steer`](Self::steer),
    /// then the follow-ups, each in the order in which they were sent. A message that the run is taking at this moment
    /// stays with the run.
    ///
    /// ```
    /// # async fn f(agent: deepagents_core::agent::Agent) {
    /// let run = agent.run("Summarise README.md").detach();
    /// run.enqueue("Now translate it to Frensh.");
    /// for message in run.retract() {
    ///     run.enqueue(message.text().replace("Frensh", "French"));
    /// }
    /// # }
    /// ```
    pub fn retract(&self) -> Vec<Message> {
        self.inner.control.inbox.take_all().into()
    }

    /// Cancels the run: the model call is dropped, and tools are aborted and their calls answered as cancelled. The
    /// history remains valid for providers.
    pub fn cancel(&self) {
        self.inner.cancel.cancel();
    }

    /// Cancels the run as [`cancel`](Self::cancel) does, on behalf of a person who was reading the answer. The text of
    /// the partial answer becomes part of the conversation, followed by a line that marks it as interrupted. Reasoning
    /// and incomplete calls are left out, and no event reports the partial answer. A sub-agent's partial answer becomes
    /// part of the result of the call that ran it.
    ///
    /// ```
    /// # async fn f(agent: deepagents_core::agent::Agent) {
    /// let run = agent.run("Tell me a long story.").detach();
    /// run.interrupt();
    /// # }
    /// ```
    pub fn interrupt(&self) {
        self.inner.control.interrupt();
        self.inner.cancel.cancel();
    }

    /// Cancels the sub-agents with this path and those below it, as [`interrupt`](Self::interrupt) does for the whole
    /// run. The path of an agent is that of its events. Returns whether one was running. Its parent agent receives the
    /// partial answer, is told that the sub-agent was cancelled, and continues.
    ///
    /// While this run is in progress, this includes background agents in this process whose events it forwards, and the
    /// sub-agents of these. A background agent that a cancelled agent started goes on; it is cancelled by its own path.
    pub fn cancel_agent(&self, path: &[String]) -> bool {
        !self.is_finished() && self.inner.control.cancel_agent(path)
    }

    /// Suspends the run at its next step, so that it can be resumed from anywhere. Calls in progress finish, sub-agents
    /// stop at their next step, calls without a result stay open, and the thread is released with its run unfinished.
    /// The outcome is [`Suspended`](super::FinishReason::Suspended), and [`RunInput::resume`](super::RunInput::resume)
    /// continues the run.
    ///
    /// A run that finishes first ends normally. Without a thread, only the state in the outcome remains.
    pub fn suspend(&self) {
        self.inner.control.suspend();
    }

    /// Suspends the run as [`suspend`](Self::suspend) does, for a process that is about to exit. If the run has not
    /// reached its next step after `timeout`, it is aborted as if the process had been killed. The effects of calls in
    /// progress are then unknown, but their latest progress output is kept for the model. The outcome is the error
    /// [`Left`](crate::error::Error::Left).
    ///
    /// This returns at most one and a half seconds after `timeout`. The run outlives that only if third-party code,
    /// such as a hook, blocks its thread, because a task can be aborted only where it awaits.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # async fn f(agent: deepagents_core::agent::Agent) {
    /// let run = agent.run("Summarise README.md").detach();
    /// run.suspend_within(Duration::from_secs(2)).await;
    /// assert!(run.is_finished());
    /// # }
    /// ```
    pub async fn suspend_within(&self, timeout: Duration) {
        self.suspend();
        if tokio::time::timeout(timeout, self.outcome()).await.is_err() {
            // A journal that does not respond must not delay the exit.
            let _ = tokio::time::timeout(SAVE_TIMEOUT, self.inner.control.abandon()).await;
            LiveRun::abort(self);
            // Wait until the aborted task has dropped everything it holds. A blocked thread must not delay the exit.
            let _ = tokio::time::timeout(ABORT_TIMEOUT, self.outcome()).await;
        }
    }

    /// Returns a snapshot of the run. Waits until the run has loaded its thread.
    ///
    /// To continue from the snapshot, subscribe with [`Subscribe::Now`] first and skip the events up to
    /// [`RunSnapshot::seq`].
    pub async fn snapshot(&self) -> RunSnapshot {
        self.inner.hub.snapshot().await
    }

    /// Subscribes to the run's events. A subscriber slows down neither the run nor other subscribers.
    pub fn subscribe(&self, from: Subscribe) -> EventStream {
        self.inner.hub.subscribe(from)
    }

    /// Waits for the run to end. Dropping the returned future only stops waiting.
    ///
    /// # Errors
    /// Returns an error if the run fails. The error holds what the run had finished.
    pub async fn outcome(&self) -> Result<Outcome, Box<RunError>> {
        let mut ended = self.inner.ended.clone();
        let lost = || Err(Box::new(RunError::without_state(Error::Left)));
        match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or_else(lost),
            Err(_) => lost(),
        }
    }

    /// Returns whether the run has ended.
    pub fn is_finished(&self) -> bool {
        // If the sender was dropped, no further value arrives.
        self.inner.ended.borrow().is_some() || self.inner.ended.has_changed().is_err()
    }

    /// Forwards the events of this run to another run while that one is in progress.
    pub(crate) fn forward_to(&self, cx: &Context) {
        self.inner.control.forward_to(&cx.shared.events);
    }

    /// Removes an owner; the last one cancels the run. A run that waits for a decision is not over: its resources
    /// besides its state, such as a shell, must exist when it is answered.
    pub(super) fn remove_owner(&self) {
        let is_last = self.inner.owners.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && !self.inner.detached.load(Ordering::Acquire) && !self.is_waiting() {
            self.inner.cancel.cancel();
        }
    }

    /// Returns whether the run has stopped to wait for a decision.
    fn is_waiting(&self) -> bool {
        let ended = self.inner.ended.borrow();
        matches!(&*ended, Some(Ok(outcome)) if outcome.stop == FinishReason::Interrupted)
    }
}

impl LiveRun for RunHandle {
    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }

    fn abort(&self) {
        if let Some(driver) = self.inner.abort.get() {
            driver.abort();
        }
    }
}
