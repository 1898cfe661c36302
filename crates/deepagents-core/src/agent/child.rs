//! Runs below a run: sub-agents.

use std::sync::Arc;

use super::Agent;
use crate::interrupt::{ActionRequests, PausedChild, PausedChildren, PendingInterrupt, answers_below, forget_asked};
use crate::run::{Driver, Outcome, RunError, RunInput, Setting};
use crate::state::{State, Update};
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
    /// `state`, which [`State::fork`] makes, and keeps no thread of its own.
    ///
    /// A call that is made again after a decision goes on where the sub-agent of that label was; `state` and `input` do
    /// not matter then. Several sub-agents of one call need labels of their own, and those of them that had ended run
    /// again when the call is made again.
    ///
    /// # Errors
    /// [`ToolError::Interrupted`] when the sub-agent waits for a decision: hand it on with `?`.
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
        let (label, call) = (label.into(), self.call_id().clone());
        let segment = format!("{label}:{}.{}", call.turn, call.index);
        let path: Arc<[String]> = shared.path.iter().cloned().chain([segment]).collect();
        // A fork of this agent has nothing to do with what is asked here.
        let mut state = state;
        forget_asked(&mut state)?;
        let mut setting = Setting {
            run: shared.run.clone(),
            path,
            events: shared.events.clone(),
            cancel: shared.cancel.child_token(),
            above: Some(shared.budget.clone()),
            state: Some(state.clone()),
            paused: None,
        };
        let mut given = state;
        let paused = self.state().get::<PausedChildren>();
        if let Some(paused) = paused.and_then(|paused| paused.get(&PausedChild::key(&call, &label))).cloned() {
            setting.path = paused.path.into();
            given = State::from_json(agent.schema().clone(), paused.given)?;
            let mut state = State::from_json(agent.schema().clone(), paused.state)?;
            state.apply(&Update::new::<ActionRequests>(answers_below(self.state(), &setting.path)))?;
            setting.state = Some(state);
            setting.paused = Some((paused.machine, paused.open));
        }
        let place = (call, label, setting.path.to_vec());
        let _running = self.with_child();
        // Boxed, since a tool of the child may run a child of its own.
        let (result, was) = Box::pin(Driver::run_to_end(agent.definition.clone(), input, setting, None)).await;
        let left = match &result {
            Ok(outcome) if matches!(outcome.stop, FinishReason::Interrupted | FinishReason::Suspended) => {
                return Err(ToolError::Interrupted(Box::new(PendingInterrupt::child(
                    place,
                    &outcome.state,
                    &given,
                    (was.machine, was.open),
                )?)));
            }
            Ok(outcome) => outcome.state.clone(),
            Err(error) => error.state.clone(),
        };
        Ok(ChildOutcome { result, child_state: ChildState { given, left } })
    }
}
