//! Runs: the handle an application holds, the decisions, and the driver that waits.

mod abort;
mod driver;
mod hooks;
mod input;
mod interrupts;
mod log;
mod model_step;
mod outcome;
mod start;
mod tool_batch;
mod tools;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use futures_core::Stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::context::{AgentDefinition, Emitter};
use crate::error::Error;
use crate::event::{Event, EventKind};
use crate::message::Message;
use crate::state::State;
pub(crate) use driver::{Below, Driver, Place, Setting};

pub use input::RunInput;
pub use outcome::{Outcome, RunError};

pub use crate::context::{Context, InputRecord, ModelCall, RunObserver, RunStart};
pub use crate::machine::{Budget, BudgetUsage, Machine, NextStep, Node, StepInput};
pub use crate::status::{BudgetKind, FinishReason};

/// A run under way: a stream of its events, and the means to steer, cancel and await it.
///
/// Events wait in a bounded channel; a run pauses while its reader is behind. Dropping the handle cancels the run.
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
pub struct Run {
    id: Arc<str>,
    events: mpsc::Receiver<Event>,
    /// Whether the last event has been read.
    ended: bool,
    steer: mpsc::UnboundedSender<Message>,
    cancel: CancellationToken,
    /// Taken by `outcome`.
    driver: Option<JoinHandle<Result<Outcome, Box<RunError>>>>,
}

impl Run {
    pub(crate) fn start(agent: Arc<AgentDefinition>, input: RunInput) -> Self {
        let id: Arc<str> = agent.ids.next("run").into();
        let (emitter, events) = Emitter::new(id.clone(), input.observer.clone());
        let (steer, inbox) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        let token = cancel.clone();
        let driver = tokio::spawn(Driver::run(agent, input, Setting::main(id.clone(), emitter, token), Some(inbox)));
        Self { id, events, ended: false, steer, cancel, driver: Some(driver) }
    }

    pub(crate) async fn drive_silently(agent: Arc<AgentDefinition>, input: RunInput) -> Result<Outcome, Box<RunError>> {
        if input.observer.is_some() {
            // A tap sees events also where nobody reads them.
            return Self::start(agent, input).outcome().await;
        }
        let id: Arc<str> = agent.ids.next("run").into();
        let setting = Setting::main(id.clone(), Emitter::silent(id), CancellationToken::new());
        Driver::run(agent, input, setting, None).await
    }

    /// The run's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Ends the run: the model call is dropped, tools are aborted and their calls answered as cancelled. The history
    /// stays one that providers accept.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Cancels the run from elsewhere.
    pub fn canceller(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Says something to the model, delivered at its next call; a run that was about to finish goes on with it. Returns
    /// whether the run was still there to hear it. A run that is halted, fails, is ended by a middleware, comes to its
    /// limit or waits for a decision asks the model no more, so it does not deliver what it has heard.
    pub fn steer(&self, message: impl Into<Message>) -> bool {
        self.steer.send(message.into()).is_ok()
    }

    /// Waits for the end. Events not yet read are thrown away.
    ///
    /// # Errors
    /// When the run fails; the error holds what it had finished.
    pub async fn outcome(mut self) -> Result<Outcome, Box<RunError>> {
        let lost = |error: Error| {
            Box::new(RunError { error, state: State::default(), usage: crate::message::Usage::default() })
        };
        let Some(mut driver) = self.driver.take() else {
            return Err(lost(Error::Input("the outcome was taken before".to_owned())));
        };
        // The driver ends the run, not the last holder of a context: a task that a tool left behind may keep one.
        loop {
            tokio::select! {
                biased;
                ended = &mut driver => return ended.unwrap_or_else(|error| Err(lost(Error::other(error)))),
                Some(_) = self.events.recv() => {}
            }
        }
    }
}

impl Stream for Run {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Event>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let event = self.events.poll_recv(cx);
        if let Poll::Ready(Some(Event { kind: EventKind::RunFinished { .. } | EventKind::RunFailed { .. }, .. })) =
            &event
        {
            self.ended = true;
            self.events.close();
        }
        event
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

const _: () = {
    const fn assert_shareable<T: Send + Sync + 'static>() {}
    assert_shareable::<Run>();
    assert_shareable::<Context>();
    assert_shareable::<Outcome>();
    assert_shareable::<RunError>();
};
