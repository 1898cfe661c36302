//! The agent's thread operations other than running.

use super::{Agent, RewindPlan, RewindResult, ThreadAccess};
use crate::error::{Error, Result};
use crate::ids::{LogPosition, ThreadId};
use crate::journal::{Checkpoint, RetentionPolicy, SubAgentInfo};
use crate::run::{Node, Run, RunInput};
use crate::state::{State, Update};

impl Agent {
    /// Resumes the run of a thread that was killed or failed; see [`RunInput::resume`].
    pub fn resume(&self, thread: impl Into<ThreadId>) -> Run {
        self.run(RunInput::resume(thread))
    }

    /// Returns the threads of the agent's journal.
    ///
    /// # Errors
    /// Returns an error if the agent has no journal.
    pub fn threads(&self) -> Result<ThreadAccess> {
        let definition = &self.definition;
        Ok(ThreadAccess {
            journal: definition.journal()?.clone(),
            schema: definition.schema.clone(),
            ids: definition.ids.clone(),
            clock: definition.clock.clone(),
            max_model_calls: definition.max_model_calls,
            process: definition.process.clone(),
            stack: definition.stack.clone(),
        })
    }

    /// See [`ThreadAccess::state`].
    ///
    /// # Errors
    /// As there, and if the agent has no journal.
    pub async fn state(&self, thread: &str) -> Result<State> {
        self.threads()?.state(thread).await
    }

    /// See [`ThreadAccess::state_at`].
    ///
    /// # Errors
    /// As there, and if the agent has no journal.
    pub async fn state_at(&self, thread: &str, position: LogPosition) -> Result<State> {
        self.threads()?.state_at(thread, position).await
    }

    /// See [`ThreadAccess::sub_agents`].
    ///
    /// # Errors
    /// As there, and if the agent has no journal.
    pub async fn sub_agents(&self, thread: &str) -> Result<Vec<SubAgentInfo>> {
        self.threads()?.sub_agents(thread).await
    }

    /// See [`ThreadAccess::sub_agent_state`].
    ///
    /// # Errors
    /// As there, and if the agent has no journal.
    pub async fn sub_agent_state(&self, thread: &str, path: &[String]) -> Result<State> {
        self.threads()?.sub_agent_state(thread, path).await
    }

    /// See [`ThreadAccess::history`].
    ///
    /// # Errors
    /// As there, and if the agent has no journal.
    pub async fn history(&self, thread: &str, before: Option<LogPosition>, limit: usize) -> Result<Vec<Checkpoint>> {
        self.threads()?.history(thread, before, limit).await
    }

    /// See [`ThreadAccess::update_state`].
    ///
    /// # Errors
    /// As there, and if the agent has no journal.
    pub async fn update_state(&self, thread: &str, update: Update) -> Result<LogPosition> {
        self.threads()?.update_state(thread, update).await
    }

    /// See [`ThreadAccess::update_state_as`].
    ///
    /// # Errors
    /// As there, and if the agent has no journal.
    pub async fn update_state_as(&self, thread: &str, node: Node, update: Update) -> Result<LogPosition> {
        self.threads()?.update_state_as(thread, node, update).await
    }

    /// See [`ThreadAccess::rewind`].
    ///
    /// # Errors
    /// As there, and if the agent has no journal.
    pub async fn rewind(&self, thread: &str, to: LogPosition) -> Result<LogPosition> {
        self.threads()?.rewind(thread, to).await
    }

    /// See [`ThreadAccess::rewind_with`].
    ///
    /// # Errors
    /// As there, and if the agent has no journal.
    pub async fn rewind_with<E: From<Error>>(
        &self,
        thread: &str,
        to: LogPosition,
        work: impl AsyncFnOnce(State, State) -> Result<RewindPlan, E>,
    ) -> Result<RewindResult, E> {
        self.threads()?.rewind_with(thread, to, work).await
    }

    /// See [`ThreadAccess::prune`].
    ///
    /// # Errors
    /// As there, and if the agent has no journal.
    pub async fn prune(&self, thread: &str, keep: &RetentionPolicy) -> Result<()> {
        self.threads()?.prune(thread, keep).await
    }
}
