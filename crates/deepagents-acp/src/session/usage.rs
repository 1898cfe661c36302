//! What a session has used so far, according to its log.

use std::collections::HashMap;
use std::sync::PoisonError;

use deepagents::core::journal::ThreadUsage;

use super::Session;
use crate::host::{AgentHost, SessionAgent};
use crate::show::Spending;
use crate::wire;

/// Maximum number of background agents that are counted.
const MAX_AGENTS: usize = 200;

/// The usage of the session's thread and of those of its background agents, by thread.
pub(super) type CountedThreads = HashMap<String, ThreadUsage>;

impl<H: AgentHost> Session<H> {
    /// Returns the cost of the session so far, with sub-agents and undone turns. What was counted before is not read
    /// again.
    pub(super) async fn spending(&self, agent: &SessionAgent) -> Result<Spending, wire::Error> {
        let threads = agent.agent.threads().map_err(|error| wire::failed(&error))?;
        let tasks = agent.agent.background(self.thread()).await.map_err(|error| wire::failed(&error))?;
        let below = tasks.into_iter().take(MAX_AGENTS).map(|task| task.thread);
        let known = self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut counted = CountedThreads::new();
        for thread in std::iter::once(self.thread().to_owned()).chain(below) {
            let before = known.get(&thread).cloned().unwrap_or_default();
            let usage = threads.usage(&thread, before).await.map_err(|error| wire::failed(&error))?;
            counted.insert(thread, usage);
        }
        let spending = Spending::new(agent, counted.values());
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = counted;
        Ok(spending)
    }
}
