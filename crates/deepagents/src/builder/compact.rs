//! Compacting a conversation between its runs.

use deepagents_core::error::{Error, Result};
use deepagents_core::run::ContextBuilder;

use super::DeepAgent;

impl DeepAgent {
    /// Puts a summary in the place of all but the last exchange of a thread that nobody works on, however full the
    /// model's window is; the messages stay in the thread and in a file. Returns how many messages the model is shown no
    /// more, and nothing where there is nothing to evict or the agent has no standard compaction.
    ///
    /// # Errors
    /// When the thread cannot be read, somebody works on it, what is evicted cannot be stored, or the model gives no
    /// summary: the conversation stays as it is then.
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
