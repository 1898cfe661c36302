//! Cache breakpoints, for providers that take them.

use deepagents_core::error::Result;
use deepagents_core::message::Message;
use deepagents_core::middleware::Middleware;
use deepagents_core::model::{CacheTtl, ModelRequest};
use deepagents_core::run::Context;

/// Marks where a provider is to cache the prompt: after the tools, after the static part of the system prompt, and at
/// the end of the conversation as it was before the last answer and as it is now. Providers without such marks ignore
/// them.
///
/// Sections of the system prompt that change, such as memory, come after the static part and so after its mark.
#[derive(Clone, Copy, Debug, Default)]
pub struct PromptCaching {
    ttl: CacheTtl,
    min_messages: usize,
}

impl PromptCaching {
    /// Marks that last so long.
    pub fn new(ttl: CacheTtl) -> Self {
        Self { ttl, min_messages: 0 }
    }

    /// Leaves requests with fewer messages, the system prompt counted as one, unmarked.
    #[must_use]
    pub fn min_messages(mut self, messages: usize) -> Self {
        self.min_messages = messages;
        self
    }
}

impl Middleware for PromptCaching {
    fn name(&self) -> &str {
        "PromptCaching"
    }

    async fn modify_request(&self, mut request: ModelRequest, cx: &Context) -> Result<ModelRequest> {
        let has_system = request.system.iter().any(|block| !block.text.is_empty());
        let messages = request.messages.len();
        if messages + usize::from(has_system) < self.min_messages {
            return Ok(request);
        }
        request.cache.tools = Some(self.ttl);
        let fixed = request.system.iter_mut().take(cx.static_system_blocks());
        if let Some(block) = fixed.filter(|block| !block.text.trim().is_empty()).last() {
            block.cache = Some(self.ttl);
        }
        // A provider looks back only so far from a mark: a turn with many parallel calls would hide the last one.
        let before_answer = request.messages.last_assistant().and_then(|at| at.checked_sub(1));
        let ends = before_answer.into_iter().chain(messages.checked_sub(1));
        request.cache.messages = ends
            .filter(|&at| request.messages.get(at).is_some_and(|m| !matches!(**m, Message::Assistant(_))))
            .map(|at| (at, self.ttl))
            .collect();
        request.cache.messages.dedup();
        Ok(request)
    }
}
