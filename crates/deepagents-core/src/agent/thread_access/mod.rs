//! Operations on threads without running an agent: reading, updating, rewinding and pruning.

mod rewind;
mod update;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::context::MAX_MODEL_CALLS;
use crate::env::{Clock, Ids, RandomIds, SystemClock};
use crate::error::Result;
use crate::ids::{CallId, LogPosition};
use crate::journal::{
    self, Checkpoint, Claim, Journal, Lease, ProcessIdentity, RetentionPolicy, SubAgentInfo, ThreadUsage,
};
use crate::middleware::DynMiddleware;
use crate::state::{Schema, State};
pub use rewind::{RewindPlan, RewindResult};

/// Lease on a thread while it is changed.
const LEASE: Duration = Duration::from_secs(60);

/// The threads of a journal, read and changed without a run. No model, tool or middleware is needed.
///
/// ```
/// use deepagents_core::agent::ThreadAccess;
/// use deepagents_core::journal::MemoryJournal;
/// use deepagents_core::message::Message;
/// use deepagents_core::state::{State, Update};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let threads = ThreadAccess::new(MemoryJournal::new(), State::default().schema().clone());
/// threads.update_state("t1", Update::message(Message::user("Hello"))).await?;
/// assert_eq!(threads.state("t1").await?.messages().len(), 1);
/// assert_eq!(threads.history("t1", None, 10).await?.len(), 1);
/// # Ok::<(), deepagents_core::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct ThreadAccess {
    pub(super) journal: Arc<dyn Journal>,
    pub(super) schema: Arc<Schema>,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) max_model_calls: u32,
    /// Tells owners of threads that are gone from slow ones.
    pub(super) process: Option<Arc<dyn ProcessIdentity>>,
    /// The agent's middlewares, which know the agents of background threads; none without an agent.
    pub(super) stack: Arc<[Arc<dyn DynMiddleware>]>,
}

impl ThreadAccess {
    /// Opens the threads of a journal with these channels: those of an agent's
    /// [`schema`](crate::agent::AgentDefinition::schema), or of the default [`State`], which has only the conversation.
    /// Changes get random ids and times from the system clock.
    pub fn new(journal: impl Journal, schema: Arc<Schema>) -> Self {
        let (ids, clock) = (Arc::new(RandomIds), Arc::new(SystemClock));
        Self {
            journal: Arc::new(journal),
            schema,
            ids,
            clock,
            max_model_calls: MAX_MODEL_CALLS,
            process: None,
            stack: Arc::from([]),
        }
    }

    /// Returns the journal.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    /// Returns the channels of the states.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns the state of a thread; empty if the thread does not exist.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub async fn state(&self, thread: &str) -> Result<State> {
        Ok(journal::load(&*self.journal, thread, self.schema.clone(), None).await?.state)
    }

    /// Returns the state of a thread at a position of its log, for example of a checkpoint.
    ///
    /// # Errors
    /// Returns an error if the log has no state there, because the log ends before the position or was pruned.
    pub async fn state_at(&self, thread: &str, position: LogPosition) -> Result<State> {
        Ok(journal::load(&*self.journal, thread, self.schema.clone(), Some(position)).await?.state)
    }

    /// Lists the sub-agents that ran as part of a thread, in the order in which they started.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub async fn sub_agents(&self, thread: &str) -> Result<Vec<SubAgentInfo>> {
        Ok(journal::sub_agents(&*self.journal, thread).await?)
    }

    /// Returns the state of a sub-agent of a thread, seen with the channels of the schema.
    ///
    /// # Errors
    /// Returns an error if there is no sub-agent at that path, or the log cannot be read.
    pub async fn sub_agent_state(&self, thread: &str, path: &[String]) -> Result<State> {
        Ok(journal::load_sub_agent(&*self.journal, thread, self.schema.clone(), path).await?.state)
    }

    /// Lists the calls that started between a position and the end of a thread's log, with the names of their tools.
    /// These are the calls that a rewind to the position abandons, including those of sub-agents that share the log.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub async fn calls_since(&self, thread: &str, from: LogPosition) -> Result<Vec<(CallId, String)>> {
        Ok(journal::calls_since(&*self.journal, thread, from).await?)
    }

    /// Returns the model usage of a thread, by all processes and on all branches. Pass the result of an earlier call as
    /// `before` to read only the records added since; the result includes both.
    ///
    /// ```
    /// use deepagents_core::agent::ThreadAccess;
    /// use deepagents_core::journal::{MemoryJournal, ThreadUsage};
    /// use deepagents_core::state::State;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let threads = ThreadAccess::new(MemoryJournal::new(), State::default().schema().clone());
    /// let usage = threads.usage("t1", ThreadUsage::default()).await?;
    /// assert_eq!(usage.total().total(), 0);
    /// # Ok::<(), deepagents_core::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub async fn usage(&self, thread: &str, before: ThreadUsage) -> Result<ThreadUsage> {
        Ok(journal::usage(&*self.journal, thread, &self.schema, before).await?)
    }

    /// Lists up to `limit` checkpoints of a thread before a position, newest first.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub async fn history(&self, thread: &str, before: Option<LogPosition>, limit: usize) -> Result<Vec<Checkpoint>> {
        Ok(journal::checkpoints(&*self.journal, thread, before, limit).await?)
    }

    /// Removes history from a thread; see [`prune`](journal::prune).
    ///
    /// # Errors
    /// Returns an error if another owner works on the thread, or the thread does not exist.
    pub async fn prune(&self, thread: &str, keep: &RetentionPolicy) -> Result<()> {
        Ok(journal::prune(&self.journal, thread, self.schema.clone(), keep).await?)
    }

    async fn claim_thread(&self, thread: &str, owner: &str) -> Result<Lease> {
        let (journal, claim) = (self.journal.clone(), Claim::new(owner, LEASE));
        Ok(Lease::claim(journal, thread, claim).await?)
    }
}

/// The change is stored; a lease that cannot be released expires.
async fn give_up(lease: Lease) {
    let _ = lease.release().await;
}

impl fmt::Debug for ThreadAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadAccess").field("channels", &self.schema.channels().len()).finish_non_exhaustive()
    }
}
