//! Runs below a run: sub-agents.

use super::{Agent, ChildScope};
use crate::interrupt::{PendingInterrupt, answers_below, forget_asked};
use crate::journal::ChildLog;
use crate::run::{Below, Driver, Outcome, Place, RunError, RunInput, Setting};
use crate::state::State;
use crate::status::FinishReason;
use crate::tool::{ChildState, ToolContext, ToolError};

/// How a sub-agent's run ended.
#[derive(Debug)]
pub struct ChildOutcome {
    /// What became of it.
    pub result: Result<Outcome, Box<RunError>>,
    /// What it was given and what it left, to be [handed back](crate::tool::ToolOutput::with_child_state).
    pub child_state: ChildState,
}

impl ToolContext {
    /// Runs another agent as part of this call: its events carry this agent's path and one step more, made of `label`
    /// and the call, such as `task:3.0`; its tokens count here, and it is cancelled with this run. It begins with
    /// `state`, which [`State::fork`] makes. What it does is written to the run's thread under its path.
    ///
    /// A call that is made again, after a decision or in another process, goes on where the sub-agent of that label was,
    /// and gets the outcome of one that had ended; `state` and the messages of `input` do not matter then. A call is made
    /// again in another process if its tool is [idempotent](crate::tool::Tool::idempotent). Several sub-agents of one
    /// call need labels of their own.
    ///
    /// # Errors
    /// [`ToolError::Interrupted`] when the sub-agent waits for a decision: hand it on with `?`. When what an earlier
    /// process left of it cannot be read.
    pub async fn run_child(
        &self,
        agent: &Agent,
        label: impl Into<String>,
        state: State,
        input: impl Into<RunInput>,
    ) -> Result<ChildOutcome, ToolError> {
        let shared = &self.context().shared;
        let mut input: RunInput = input.into();
        input.thread = None;
        input.extensions = input.extensions.over(&shared.extensions);
        input.observer.clone_from(&shared.observer);
        let label = label.into();
        let left = self.take_left(&label).filter(ChildLog::has_begun);
        let scope = ChildScope::open(self, label.clone(), agent.name().to_owned(), left.as_ref());
        // A fork of this agent has nothing to do with what is asked here.
        let mut given = state;
        forget_asked(&mut given)?;
        let mut resumed = None;
        if let Some(left) = left {
            let thread = shared.thread.as_deref().unwrap_or_default();
            let (replay, began_with) = left.replay(thread, agent.schema().clone()).map_err(ToolError::fatal)?;
            resumed = Some(replay);
            given = began_with;
        }
        let below = Below {
            call: self.call_id().clone(),
            label,
            base: self.state().clone(),
            given: given.clone(),
            resumed,
            answers: answers_below(self.state(), &scope.path),
            log: shared.log.get().cloned(),
        };
        let setting = Setting {
            run: shared.run.clone(),
            path: scope.path.clone(),
            events: shared.events.clone(),
            cancel: scope.cancel.clone(),
            above: Some(scope.budget.clone()),
            beside: None,
            place: Place::Below(Box::new(below)),
            root: Some(shared.root.as_ref().unwrap_or(shared).clone()),
        };
        // Boxed, since a tool of the child may run a child of its own.
        let result = Box::pin(Driver::run(agent.definition.clone(), Box::new(input), setting, None)).await;
        let left = match &result {
            Ok(outcome) if matches!(outcome.stop, FinishReason::Interrupted | FinishReason::Suspended) => {
                return Err(ToolError::Interrupted(Box::new(PendingInterrupt::child(given, outcome.state.clone()))));
            }
            Ok(outcome) => outcome.state.clone(),
            Err(error) => error.state.clone(),
        };
        Ok(ChildOutcome { result, child_state: ChildState { given, left } })
    }
}
