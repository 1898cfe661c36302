//! Agents: a model, tools and middlewares, built once and run any number of times.

mod background;
mod builder;
mod call_tool;
mod child;
mod child_events;
mod child_scope;
mod latest_state;
mod load_state;
mod log_replay;
mod thread_access;
mod threads;
mod watch;

use std::sync::Arc;

use crate::context::NoObserver;
use crate::error::Result;
use crate::interrupt::{ActionRequest, Decision, DecisionError};
use crate::model::ChatModel;
use crate::panics::caught;
use crate::run::{LiveRuns, Outcome, Run, RunError, RunInput};

pub use background::{BackgroundError, BackgroundReport, BackgroundTask, BackgroundTasks, NewTask};

pub use builder::{AgentBuilder, AgentOptions, BuildError};
pub use child::ChildOutcome;
pub use child_events::ChildEvent;
pub use child_scope::ChildScope;
pub use latest_state::LatestState;
pub use log_replay::LogReplay;
pub use thread_access::{RewindPlan, RewindResult, ThreadAccess};

pub use crate::context::AgentDefinition;

/// An agent. Cloning it only increments a reference count, and any number of runs can share it.
///
/// This is the bare agent loop. The `deepagents` crate adds planning, files and the rest.
#[derive(Clone, Debug)]
pub struct Agent {
    pub(crate) definition: Arc<AgentDefinition>,
    /// Its runs that can be found by id.
    pub(crate) live: Arc<LiveRuns>,
}

impl Agent {
    /// Returns a builder for an agent with this model.
    pub fn builder(model: impl ChatModel) -> AgentBuilder {
        AgentBuilder::new(Arc::new(model))
    }

    /// Passes a text through the middlewares'
    /// [`Middleware::receive_text`](crate::middleware::Middleware::receive_text). For text from people that an
    /// application stores itself, such as the name of a conversation.
    ///
    /// # Errors
    /// Returns an error if a middleware rejects the text.
    pub fn receive_text(&self, text: impl Into<String>) -> Result<String> {
        self.definition.received_text(text.into())
    }

    /// Checks whether a decision answers a question of a thread, as a run resumed with it would, so that the caller can
    /// still correct it. An edited call is checked only if it belongs to this agent itself and its tool is always
    /// offered.
    ///
    /// # Errors
    /// Returns an error that says what is wrong with the decision.
    pub fn check_decision(&self, question: &ActionRequest, decision: &Decision) -> Result<(), DecisionError> {
        question.check(decision, self.definition.clock.now())?;
        let Some(edited) = decision.edited_action() else { return Ok(()) };
        let tool = self.definition.tools.spec(&edited.name);
        question.check_edit_in(&[], edited, tool.map(|tool| &**tool))
    }

    /// Returns the agent's definition.
    pub fn definition(&self) -> &Arc<AgentDefinition> {
        &self.definition
    }

    /// Starts a run on the current Tokio runtime. Dropping the last owner of the run cancels it. If a run with the same
    /// [id](RunInput::id) and thread is in progress on this agent, returns another owner of that run.
    ///
    /// Runs on one thread are neither ordered nor queued: the first that claims the thread has it, and others fail with
    /// [`JournalError::Busy`](crate::journal::JournalError::Busy) until it has ended. Await the outcome of a run before
    /// the next one is started, or pass messages to the run in progress.
    ///
    /// # Panics
    /// Panics outside a Tokio runtime. A run that has a thread or a time limit fails on a runtime without timers: build
    /// the runtime with `enable_all` or `enable_time`.
    pub fn run(&self, input: impl Into<RunInput>) -> Run {
        self.live.start(self.definition.clone(), self.observed(input.into()))
    }

    /// Runs to completion on the current Tokio runtime, without events. Dropping the future stops the run immediately.
    ///
    /// # Errors
    /// Returns an error if the run fails. The error holds what the run had finished.
    pub async fn invoke(&self, input: impl Into<RunInput>) -> Result<Outcome, Box<RunError>> {
        let input = input.into();
        // An observer needs events even if nothing else reads them, a run with an id must be found by that id, and the
        // run of a background agent's thread must be found among the live runs.
        let child = input.thread.as_ref().is_some_and(|thread| thread.contains('/'));
        if input.observer.is_some() || self.definition.observers.is_some() || input.id.is_some() || child {
            return self.run(input).outcome().await;
        }
        Run::drive_silently(self.definition.clone(), input).await
    }

    fn observed(&self, input: RunInput) -> RunInput {
        let Some(observers) = &self.definition.observers else { return input };
        input.observer(caught(|| observers()).unwrap_or_else(|panic| NoObserver::because(&panic)))
    }
}

impl std::ops::Deref for Agent {
    type Target = AgentDefinition;

    fn deref(&self) -> &AgentDefinition {
        &self.definition
    }
}
