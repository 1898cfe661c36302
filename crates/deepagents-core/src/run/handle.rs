//! Holding a run without owning it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::{Outcome, RunError};
use crate::context::{Context, Inbox, LiveRun, RunControl};
use crate::error::Error;
use crate::event::{EventHub, EventStream, RunSnapshot, Subscribe};
use crate::ids::{RunId, ThreadId};
use crate::message::{Message, Usage};
use crate::state::State;
use crate::status::FinishReason;

/// How long what calls had put out may take to be written down where they are left.
const KEEP: Duration = Duration::from_millis(500);

/// How a run ended, once it has.
pub(super) type Ended = Option<Result<Outcome, Box<RunError>>>;

/// A holder of a run: any number of them steer it, follow it and await its end. Dropping one changes nothing; the run is
/// cancelled when its last [`Run`](super::Run) is dropped that was not [detached](super::Run::detach).
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
    pub(super) steer: Arc<Inbox>,
    pub(super) cancel: CancellationToken,
    pub(super) ended: watch::Receiver<Ended>,
    /// Ends it where it is.
    pub(super) abort: OnceLock<AbortHandle>,
    /// How many values of [`Run`](super::Run) there are of it.
    pub(super) owners: AtomicUsize,
    /// Whether it goes on without an owner.
    pub(super) detached: AtomicBool,
}

impl RunHandle {
    /// The run's id. A run that goes on with one that another process left has that one's id as soon as it has read
    /// the thread, and one of its own until then.
    pub fn id(&self) -> &str {
        self.inner.id.get()
    }

    /// The run's thread, when it has one.
    pub fn thread(&self) -> Option<&str> {
        self.inner.thread.as_deref()
    }

    /// Says something to the model, delivered at its next call; a run that was about to finish goes on with it. Returns
    /// whether the run was still there to hear it. A run that is halted, fails, is ended by a middleware, comes to its
    /// limit asks the model no more, so it does not deliver what it was sent; where it is suspended or waits for a
    /// decision, the run that goes on delivers it.
    pub fn steer(&self, message: impl Into<Message>) -> bool {
        // Before the message itself, so that a run which takes it in at once does not find this afterwards.
        self.inner.control.set_said(true);
        self.inner.steer.push(message.into())
    }

    /// Gives the run a follow-up: when it would end by itself, the message becomes the next one of the user, and the run
    /// goes on with it. Several are taken one after the other, each when the one before has been worked on. Returns
    /// whether the run still takes any; as for [`steer`](Self::steer), one that ends otherwise leaves them, and where it is
    /// suspended or waits for a decision, the run that goes on takes them.
    pub fn enqueue(&self, message: impl Into<Message>) -> bool {
        self.inner.control.enqueue(message.into())
    }

    /// Takes back what was said to the run and is not yet part of its conversation: what it was to be told at its next
    /// model call, then its follow-ups, each in the order in which they were said. What the run takes in at this moment
    /// stays with it.
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
        let mut back = Vec::from(self.inner.steer.take());
        self.inner.control.set_said(false);
        back.extend(self.inner.control.retract());
        back
    }

    /// Ends the run: the model call is dropped, tools are aborted and their calls answered as cancelled. The history
    /// stays one that providers accept.
    pub fn cancel(&self) {
        self.inner.cancel.cancel();
    }

    /// Ends the run as [`cancel`](Self::cancel) does, for a person who has read what the agent was saying: the text of the
    /// answer that its model was giving becomes part of the conversation, with a line that says that it was interrupted.
    /// What it had thought, and calls that were not complete, are left out, and those who hold the run are not told of an
    /// answer. What a sub-agent was saying is part of the result of the call that ran it.
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

    /// Ends the sub-agent with this path and those below it, as [`interrupt`](Self::interrupt) does the whole run; the
    /// path of an agent is that of its events. Returns whether it was under way. The agent above it is told that it was
    /// cancelled, and what it was saying, and goes on.
    pub fn cancel_agent(&self, path: &[String]) -> bool {
        self.inner.control.agents().cancel(path)
    }

    /// Makes the run stop at its next step, so that anybody can go on with it: what is under way is finished, sub-agents
    /// stop at their next step, calls without a result stay open, and the thread is given up with its run unfinished.
    /// The outcome says [`Suspended`](super::FinishReason::Suspended); [`RunInput::resume`](super::RunInput::resume)
    /// goes on. A run that comes to its end first just ends. Without a thread, what is left is the state of the outcome.
    pub fn suspend(&self) {
        self.inner.control.suspend();
    }

    /// Makes the run stop as [`suspend`](Self::suspend) does, for a process that is about to end: where it has not come to its
    /// next step after this time, it is left where it is, as by a process that was killed. Calls that are under way are in
    /// doubt then, though the last of what they have told of their progress is kept for the model. The outcome is the
    /// error [`Left`](crate::error::Error::Left).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # async fn f(agent: deepagents_core::agent::Agent) {
    /// let run = agent.run("Summarise README.md").detach();
    /// run.suspend_within(Duration::from_secs(2)).await;
    /// assert!(run.is_finished());
    /// # }
    /// ```
    pub async fn suspend_within(&self, patience: Duration) {
        self.suspend();
        if tokio::time::timeout(patience, self.outcome()).await.is_err() {
            // A journal that does not answer keeps nobody from ending.
            let _ = tokio::time::timeout(KEEP, self.inner.control.leave()).await;
            LiveRun::abort(self);
            // What it has is dropped before this goes on.
            let _ = self.outcome().await;
        }
    }

    /// Says where the run is. Waits until the run has loaded its thread.
    ///
    /// To go on from there, subscribe with [`Subscribe::Now`] before, and pass over the events up to [`RunSnapshot::seq`].
    pub async fn snapshot(&self) -> RunSnapshot {
        self.inner.hub.snapshot().await
    }

    /// Follows the events of the run. A subscriber does not slow the run down, nor other subscribers.
    pub fn subscribe(&self, from: Subscribe) -> EventStream {
        self.inner.hub.subscribe(from)
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When the run fails; the error holds what it had finished.
    pub async fn outcome(&self) -> Result<Outcome, Box<RunError>> {
        let mut ended = self.inner.ended.clone();
        let lost = || Err(Box::new(RunError::new(Error::Left, State::default(), Usage::default())));
        match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or_else(lost),
            Err(_) => lost(),
        }
    }

    /// Whether the run has ended.
    pub fn is_finished(&self) -> bool {
        // A sender that is gone will not say so any more.
        self.inner.ended.borrow().is_some() || self.inner.ended.has_changed().is_err()
    }

    /// Gives the events of the run to another one too, as long as that is under way.
    pub(crate) fn forward_to(&self, cx: &Context) {
        self.inner.control.forward_to(Some(cx.shared.events.clone()));
    }

    /// One more owner.
    pub(super) fn own(&self) {
        self.inner.owners.fetch_add(1, Ordering::Relaxed);
    }

    /// One owner less; the last one cancels the run. One that waits for a decision is not over: what it has besides its
    /// state, such as a shell, is there when it is answered.
    pub(super) fn disown(&self) {
        let is_last = self.inner.owners.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && !self.inner.detached.load(Ordering::Acquire) && !self.waits() {
            self.inner.cancel.cancel();
        }
    }

    /// Whether the run has ended to wait for a decision.
    fn waits(&self) -> bool {
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
