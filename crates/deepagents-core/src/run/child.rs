//! Runs below a run: sub-agents.

use std::sync::Arc;

use super::driver::{Driver, Setting};
use super::meter::Meter;
use super::{Context, Outcome, RunError, RunInput};
use crate::agent::Agent;
use crate::state::State;

impl Context {
    /// Runs another agent as part of this run: its events carry this agent's path and `segment`, its tokens count here,
    /// and it is cancelled with this run. It begins with `state`, which [`State::fork`] makes, and keeps no thread.
    ///
    /// # Errors
    /// When the other run fails; the error holds what it had finished.
    pub async fn run_child(
        &self,
        agent: &Agent,
        segment: impl Into<String>,
        state: State,
        input: impl Into<RunInput>,
    ) -> Result<Outcome, Box<RunError>> {
        let mut input: RunInput = input.into();
        input.thread = None;
        input.extensions = self.shared.extensions.clone();
        let path: Arc<[String]> = self.shared.path.iter().cloned().chain([segment.into()]).collect();
        let setting = Setting {
            run: self.shared.run.clone(),
            path,
            events: self.shared.events.clone(),
            cancel: self.shared.cancel.child_token(),
            meter: Arc::new(Meter::below(self.shared.meter.clone())),
            state: Some(state),
        };
        // Boxed, since a tool of the child may run a child of its own.
        Box::pin(Driver::run(agent.clone(), input, setting, None)).await
    }
}
