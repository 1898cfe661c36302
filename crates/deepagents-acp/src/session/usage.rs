//! What a session has used so far, according to its log.

use std::collections::HashMap;
use std::sync::PoisonError;

use deepagents::core::journal::ThreadUsage;

use super::Session;
use crate::host::{AgentHost, SessionAgent};
use crate::show::Spending;

/// Maximum number of background agents that are counted.
const MAX_AGENTS: usize = 200;

/// The usage of the session's thread and of those of its background agents, by thread.
pub(super) type CountedThreads = HashMap<String, ThreadUsage>;

impl<H: AgentHost> Session<H> {
    /// Returns the cost of the session so far, with sub-agents and undone turns. What was counted before is not read
    /// again. A log that cannot be read is left out: a prompt does not fail for the sake of its cost.
    pub(super) async fn spending(&self, agent: &SessionAgent) -> Spending {
        let tasks = agent.agent.background(self.thread()).await.unwrap_or_default();
        let below = tasks.into_iter().take(MAX_AGENTS).map(|task| task.thread);
        let mut known = std::mem::take(&mut *self.counted.lock().unwrap_or_else(PoisonError::into_inner));
        let mut counted = CountedThreads::new();
        if let Ok(threads) = agent.agent.threads() {
            for thread in std::iter::once(self.thread().to_owned()).chain(below) {
                let before = known.remove(&thread).unwrap_or_default();
                let usage = threads.usage(&thread, before).await.unwrap_or_default();
                counted.insert(thread, usage);
            }
        }
        let spending = Spending::new(agent, counted.values());
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = counted;
        spending
    }
}
