//! Agents: a model, tools and middlewares, built once and run any number of times.

mod background;
mod builder;
mod call_tool;
mod child;
mod child_events;
mod child_scope;
mod load_state;
mod log_replay;
mod thread_access;
mod threads;
mod watch;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use crate::context::NoObserver;
use crate::error::Result;
use crate::interrupt::{ActionRequest, Decision, DecisionError};
use crate::model::ChatModel;
use crate::run::{LiveRuns, Outcome, Run, RunError, RunInput};

pub use background::{BackgroundError, BackgroundReport, BackgroundTask, BackgroundTasks, NewTask};

pub use builder::{AgentBuilder, AgentOptions, BuildError};
pub use child::ChildOutcome;
pub use child_events::ChildEvent;
pub use child_scope::ChildScope;
pub use log_replay::LogReplay;
pub use thread_access::{RewindPlan, RewindResult, ThreadAccess};

pub use crate::context::AgentDefinition;

/// An agent. Cloning it costs a reference count; any number of runs share one.
///
/// This is the bare loop: see the `deepagents` crate for the one with planning, files and the rest.
#[derive(Clone, Debug)]
pub struct Agent {
    pub(crate) definition: Arc<AgentDefinition>,
    /// Its runs that are found by their ids.
    pub(crate) live: Arc<LiveRuns>,
}

impl Agent {
    /// Begins an agent on a model.
    pub fn builder(model: impl ChatModel) -> AgentBuilder {
        AgentBuilder::new(Arc::new(model))
    }

    /// A text as the middlewares let it in, by [`Middleware::receive_text`](crate::middleware::Middleware::receive_text): for
    /// what an application keeps of what people say, such as the name of a conversation.
    ///
    /// # Errors
    /// When a middleware refuses it.
    pub fn receive_text(&self, text: impl Into<String>) -> Result<String> {
        self.definition.received_text(text.into())
    }

    /// Whether a decision answers a question of a thread, as a run that is resumed with it would find: for whoever can
    /// still put it right. Of edited calls, those of this agent itself are looked at whose tools are always on offer.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_decision(&self, question: &ActionRequest, decision: &Decision) -> Result<(), DecisionError> {
        question.check(decision, self.definition.clock.now())?;
        match decision {
            Decision::Edit { edited_action } => {
                let tool = self.definition.tools.spec(&edited_action.name);
                question.check_edit_in(&[], edited_action, tool.map(|tool| &**tool))
            }
            _ => Ok(()),
        }
    }

    /// What it is made of.
    pub fn definition(&self) -> &Arc<AgentDefinition> {
        &self.definition
    }

    /// Starts a run on the current Tokio runtime. Dropping it cancels it. Where a run with the
    /// [id](RunInput::id) and the thread of the input is under way on this agent, this gives another owner of that one.
    ///
    /// # Panics
    /// Outside of a Tokio runtime. A run with a thread, or with a limit on its time, fails on a runtime without timers: build
    /// it with `enable_all` or `enable_time`.
    pub fn run(&self, input: impl Into<RunInput>) -> Run {
        self.live.start(self.definition.clone(), self.observed(input.into()))
    }

    /// Runs to the end, without events, on the current Tokio runtime. Dropping the future stops the run where it is.
    ///
    /// # Errors
    /// When the run fails; the error holds what it had finished.
    pub async fn invoke(&self, input: impl Into<RunInput>) -> Result<Outcome, Box<RunError>> {
        let input = input.into();
        // An observer sees events also where nobody reads them, one with an id may be asked for again, and the thread of
        // an agent in the background is looked for among those under way.
        let child = input.thread.as_ref().is_some_and(|thread| thread.contains('/'));
        if input.observer.is_some() || self.definition.observers.is_some() || input.id.is_some() || child {
            return self.run(input).outcome().await;
        }
        Run::drive_silently(self.definition.clone(), input).await
    }

    fn observed(&self, input: RunInput) -> RunInput {
        let Some(observers) = &self.definition.observers else { return input };
        match std::panic::catch_unwind(AssertUnwindSafe(|| observers())) {
            Ok(observer) => input.observer(observer),
            Err(panic) => input.observer(NoObserver::because(&*panic)),
        }
    }
}

impl std::ops::Deref for Agent {
    type Target = AgentDefinition;

    fn deref(&self) -> &AgentDefinition {
        &self.definition
    }
}

const _: () = {
    const fn assert_shareable<T: Send + Sync + 'static>() {}
    assert_shareable::<Agent>();
};
