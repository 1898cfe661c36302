//! Sub-agents: runs nested in a run.

use super::{Agent, ChildScope};
use crate::interrupt::{PendingInterrupt, answers_below, forget_asked};
use crate::journal::ChildLog;
use crate::run::{Below, Driver, Outcome, Place, RunError, RunInput, Setting};
use crate::state::State;
use crate::status::FinishReason;
use crate::tool::{ChildState, ToolContext, ToolError};

/// The result of a sub-agent's run.
#[derive(Debug)]
pub struct ChildOutcome {
    /// The outcome, or the error if it failed.
    pub result: Result<Outcome, Box<RunError>>,
    /// The sub-agent's initial and final states, to [pass to the tool's
    /// output](crate::tool::ToolOutput::with_child_state).
    pub child_state: ChildState,
}

impl ToolContext {
    /// Runs another agent as part of this call. It starts with `state`, which [`State::fork`] makes. The path of its
    /// events is this agent's path plus a segment made of `label` and the call, such as `task:3.0`. Its tokens count
    /// towards this run, and cancelling this run cancels it. Its records are written to the run's thread under its
    /// path.
    ///
    /// If the call is repeated, after a decision or in another process, the sub-agent with that label resumes where it
    /// stopped. If it had ended, its outcome is returned. `state` and the messages of `input` are then ignored.
    ///
    /// Another process repeats a call only if its tool is [idempotent](crate::tool::Tool::idempotent). If one call runs
    /// several sub-agents, each needs its own label.
    ///
    /// # Errors
    /// Returns [`ToolError::Interrupted`] if the sub-agent waits for a decision: propagate it with `?`. Returns an
    /// error if the records that an earlier process left of the sub-agent cannot be read.
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
        let left = self.take_child_log(&label).filter(ChildLog::has_begun);
        let scope = ChildScope::open(self, label.clone(), agent.name().to_owned(), left.as_ref());
        // The action requests of this agent do not belong in a fork of its state.
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
            tracked_under: None,
            place: Place::Below(Box::new(below)),
            root: Some(shared.root.as_ref().unwrap_or(shared).clone()),
        };
        // Boxed because a tool of the child may run its own child.
        let result = Box::pin(Driver::run(agent.definition.clone(), Box::new(input), setting)).await;
        let left = result.as_ref().map_or_else(|error| error.state.clone(), |outcome| outcome.state.clone());
        let child_state = ChildState { given, left };
        let stop = result.as_ref().ok().map(|outcome| &outcome.stop);
        if matches!(stop, Some(FinishReason::Interrupted | FinishReason::Suspended)) {
            return Err(ToolError::Interrupted(Box::new(PendingInterrupt::child(child_state))));
        }
        Ok(ChildOutcome { result, child_state })
    }
}
