//! Runs: handles, inputs, outcomes and the driver.

mod abort;
mod background;
mod driver;
mod handle;
mod hooks;
mod input;
mod interrupted;
mod interrupts;
mod last_answer;
mod left_calls;
mod live_runs;
mod log;
mod model_step;
mod offers;
mod outcome;
mod record;
mod start;
mod task;
mod tools;
mod undelivered;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context as TaskContext, Poll};

use futures_core::Stream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::context::{AgentDefinition, Emitter};
use crate::error::Error;
use crate::event::{Event, EventStream, Subscribe};
use crate::ids::RunId;
use crate::panics::caught_async;
pub(crate) use background::{ERROR, agent_of};
pub(crate) use driver::{Below, Driver, NewThread, Place, Setting};
use handle::Inner;
use task::{Close, RunTask, Work};

pub(crate) use live_runs::LiveRuns;
pub(crate) use offers::{join_offered, offered_tools};
pub(crate) use start::AGENT;

pub use handle::RunHandle;
pub use input::RunInput;
pub use interrupted::interrupted_words;
pub use outcome::{Outcome, RunError};
pub use record::{OUTCOME_VERSION, OutcomeRecord, RunErrorRecord};

pub use crate::context::{
    Context, ContextBuilder, INPUT_VERSION, InputRecord, ModelCall, Observers, Reporter, RunObserver, RunStart,
    SharedBudget, Suspender,
};
pub use crate::machine::{Budget, BudgetUsage, LimitExit, Machine, NextStep, Node, StepInput};
pub use crate::status::{BudgetKind, FinishReason};

/// The owner of a run in progress: a stream of its events from the first one, with the methods of a [`RunHandle`]. The
/// run is cancelled when its last owner is dropped, unless it was [detached](Self::detach).
///
/// The run does not wait for its reader. A reader that lags by more than 1,024 events misses pieces of answers; see
/// [`EventStream`].
///
/// ```no_run
/// # async fn f(agent: deepagents_core::agent::Agent) -> Result<(), Box<dyn std::error::Error>> {
/// use futures_util::StreamExt;
/// use deepagents_core::event::EventKind;
///
/// let mut run = agent.run("Summarise README.md");
/// while let Some(event) = run.next().await {
///     if let EventKind::TextDelta { text, .. } = event.kind {
///         print!("{text}");
///     }
/// }
/// let outcome = run.outcome().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a run that is dropped is cancelled: wait for its outcome, or detach it"]
pub struct Run {
    handle: RunHandle,
    /// `None` once nobody can read the events any more.
    events: Option<EventStream>,
}

impl Run {
    /// Makes a run and the task to spawn. `ended` is called once the outcome is set.
    fn prepare(agent: Arc<AgentDefinition>, input: RunInput, ended: impl FnOnce() + Send + 'static) -> (Self, RunTask) {
        Self::prepare_with_parent(agent, input, None, None, ended)
    }

    /// Makes a run, optionally in the background of a parent run and on a new thread, and the task to spawn.
    pub(crate) fn prepare_with_parent(
        agent: Arc<AgentDefinition>,
        mut input: RunInput,
        above: Option<&Context>,
        new: Option<NewThread>,
        ended: impl FnOnce() + Send + 'static,
    ) -> (Self, RunTask) {
        let id = RunId::new(input.id.clone().unwrap_or_else(|| agent.ids.next("run")));
        let recent_only = input.recent_events || above.is_some_and(|above| above.shared.events.is_recent_only());
        let (emitter, hub, control) =
            Emitter::new(id.clone(), agent.clock.clone(), input.observer.clone(), recent_only);
        let cancel = input.cancel_token();
        let (report, result) = watch::channel(None);
        let handle = RunHandle {
            inner: Arc::new(Inner {
                id: id.clone(),
                thread: input.thread.clone(),
                hub: hub.clone(),
                control: control.clone(),
                cancel: cancel.clone(),
                ended: result,
                abort: OnceLock::new(),
                owners: AtomicUsize::new(0),
                detached: AtomicBool::new(false),
            }),
        };
        let run = Self::from_handle(handle);
        if let Some(above) = above {
            input.agent_calls = input.agent_calls.or_else(|| above.shared.calls_of_started_agents());
            run.handle.forward_to(above);
        }
        let main = Setting::main(id, emitter.clone(), cancel);
        let setting = Setting {
            // Set from the start, so that an error before the thread is open is reported at this path, not at the
            // parent's.
            path: new.as_ref().map_or(main.path.clone(), |new| new.path.clone().into()),
            above: above.map(|above| above.shared.budget.clone()),
            tracked_under: input.thread.as_deref().filter(|_| above.is_some()).map(Arc::from),
            place: new.map_or(Place::Main, |new| Place::Background(Box::new(new))),
            ..main
        };
        let inner = run.handle.inner.clone();
        let (path, ended) = (setting.path.clone(), Some(Box::new(ended) as _));
        let close = Close { hub, control, path, events: emitter, ended };
        let driven = Box::pin(Driver::run_as(agent, Box::new(input), setting));
        (run, RunTask { inner, work: Work { driven, report, close } })
    }

    /// Adds an owner of a run, which reads the events from the start.
    fn from_handle(handle: RunHandle) -> Self {
        handle.inner.owners.fetch_add(1, Ordering::Relaxed);
        let events = Some(handle.subscribe(Subscribe::Start));
        Self { handle, events }
    }

    pub(crate) async fn drive_silently(agent: Arc<AgentDefinition>, input: RunInput) -> Result<Outcome, Box<RunError>> {
        let id = RunId::new(agent.ids.next("run"));
        let setting = Setting::main(id.clone(), Emitter::silent(id), input.cancel_token());
        let driven = Box::pin(Driver::run(agent, Box::new(input), setting));
        caught_async(driven).await.unwrap_or_else(|panic| Err(panicked(&panic)))
    }

    /// Returns a handle that does not own the run.
    pub fn handle(&self) -> RunHandle {
        self.handle.clone()
    }

    /// Lets the run continue without an owner. Only [`RunHandle::cancel`] and its limits then end it early.
    pub fn detach(self) -> RunHandle {
        self.handle.inner.detached.store(true, Ordering::Release);
        self.handle.clone()
    }

    /// Returns the token that cancels the run.
    pub fn canceller(&self) -> CancellationToken {
        self.handle.inner.cancel.clone()
    }

    /// Waits for the run to end. Unread events are discarded.
    ///
    /// The returned future owns the run: dropping it, as a timeout or a `select!` does, cancels the run unless there is
    /// another owner. The method of the same name of [`handle()`](Self::handle) only stops waiting.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # async fn f(agent: deepagents_core::agent::Agent) {
    /// let run = agent.run("Summarise README.md");
    /// if tokio::time::timeout(Duration::from_secs(5), run.handle().outcome()).await.is_err() {
    ///     println!("it is still running");
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the run fails. The error holds what the run had finished.
    pub async fn outcome(mut self) -> Result<Outcome, Box<RunError>> {
        self.events = None;
        // The outcome comes from the driver and does not wait for every context to be dropped: a task that a tool left
        // behind may hold one.
        self.handle.outcome().await
    }
}

impl std::ops::Deref for Run {
    type Target = RunHandle;

    fn deref(&self) -> &RunHandle {
        &self.handle
    }
}

impl Stream for Run {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Event>> {
        match &mut self.events {
            Some(events) => Pin::new(events).poll_next(cx),
            None => Poll::Ready(None),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.handle.remove_owner();
    }
}

/// The error of a run in which third-party code panicked.
fn panicked(panic: &str) -> Box<RunError> {
    let error = Error::other(format!("the run panicked: {panic}"));
    Box::new(RunError::without_state(error))
}
