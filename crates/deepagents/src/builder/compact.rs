//! Compacts a conversation between runs.

use deepagents_core::error::{Error, Result};
use deepagents_core::run::ContextBuilder;

use super::DeepAgent;

impl DeepAgent {
    /// Replaces all but the last exchange of an idle thread with a summary, however full the context window is. The
    /// messages stay in the thread and in a file. Returns how many messages the model no longer sees, or `None` if
    /// there is nothing to evict or the agent does not have the standard compaction.
    ///
    /// # Errors
    /// Returns an error, and leaves the conversation unchanged, if the thread cannot be read or is in use, if the
    /// evicted messages cannot be stored, or if the model gives no summary.
    pub async fn compact(&self, thread: &str) -> Result<Option<usize>> {
        let Some(summarization) = &self.summarization else { return Ok(None) };
        let state = self.agent.state(thread).await?;
        let cx = ContextBuilder::for_agent(self.agent.definition()).state(state).thread(thread).build();
        let Some((evicted, update)) = summarization.compact_now(&cx).await.map_err(Error::other)? else {
            return Ok(None);
        };
        self.agent.threads()?.update_state_charged(thread, update, cx.spent()).await?;
        Ok(Some(evicted))
    }
}
