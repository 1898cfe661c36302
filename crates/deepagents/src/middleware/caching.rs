//! Cache breakpoints for providers that support them.

use std::future::{Future, ready};

use deepagents_core::error::{Error, Result};
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::Message;
use deepagents_core::middleware::{HookOutput, Middleware, ModelNext, ModelResponse};
use deepagents_core::model::{CacheTtl, ModelError, ModelRequest};
use deepagents_core::run::Context;
use futures_util::future::Either;

/// Marks the cache breakpoints of a prompt: after the tools, after the static part of the system prompt, at the end of
/// the conversation before the last answer, and at its current end. Providers without such marks ignore them.
///
/// Sections of the system prompt that change, such as memory, come after the static part and therefore after its mark.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::core::model::CacheTtl;
/// use deepagents::middleware::caching::{PromptCaching, UnsupportedModel};
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// // In the place of the standard one.
/// let caching = PromptCaching::new(CacheTtl::OneHour).unsupported_model_behavior(UnsupportedModel::Warn);
/// let agent = DeepAgent::builder().model(ScriptedModel::new([Turn::text("Hello.")])).middleware(caching).build()?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PromptCaching {
    ttl: CacheTtl,
    min_messages: usize,
    unsupported: UnsupportedModel,
}

/// The behaviour for a model that is not known to support cache marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnsupportedModel {
    /// Do nothing: the provider ignores the marks.
    #[default]
    Ignore,
    /// Report the event `caching_unsupported` once per run.
    Warn,
    /// Fail the run before the first model call.
    Fail,
}

/// Maximum number of cache marks per request that providers accept.
const MAX_MARKS: usize = 4;

impl PromptCaching {
    /// Creates marks with this time to live.
    pub fn new(ttl: CacheTtl) -> Self {
        Self { ttl, ..Self::default() }
    }

    crate::shared::setters! {
        /// Sets the behaviour for a model that is not known to support cache marks;
        /// [`Ignore`](UnsupportedModel::Ignore) by default.
        unsupported_model_behavior(behavior: UnsupportedModel) => unsupported = behavior;

        /// Does not mark requests with fewer messages than this, counting the system prompt as one.
        min_messages(messages: usize) => min_messages = messages;
    }
}

impl Middleware for PromptCaching {
    fn name(&self) -> &str {
        "PromptCaching"
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        if self.unsupported == UnsupportedModel::Warn && !cx.model().profile().cache_marks {
            cx.report(MiddlewareEvent::CachingUnsupported { model: cx.model().name().to_owned() });
        }
        Ok(HookOutput::next())
    }

    async fn modify_request(&self, mut request: ModelRequest, cx: &Context) -> Result<ModelRequest> {
        let has_system = request.system.iter().any(|block| !block.is_empty());
        let messages = request.messages.len();
        if messages + usize::from(has_system) < self.min_messages {
            return Ok(request);
        }
        // The caller's marks on blocks count too, and a mark must not outlive an earlier one.
        let given: Vec<CacheTtl> = request.system.iter().filter_map(|block| block.cache).collect();
        let ttl = given.iter().copied().min().map_or(self.ttl, |given| given.min(self.ttl));
        // A mark of the caller covers everything before it.
        request.cache.tools = given.is_empty().then_some(ttl);
        let mut left = MAX_MARKS.saturating_sub(given.len().max(1));
        let fixed = request.system.iter_mut().take(cx.static_system_blocks());
        if let Some(block) = fixed.filter(|block| !block.is_empty()).last()
            && block.cache.is_none()
            && left > 0
        {
            block.cache = Some(ttl);
            left -= 1;
        }
        // Providers only look back a limited distance from a mark, so a turn with many parallel calls would hide the
        // previous one.
        let before_answer = request.messages.last_assistant().and_then(|at| at.checked_sub(1));
        let ends = before_answer.into_iter().chain(messages.checked_sub(1));
        let is_sent = |at: &usize| request.messages.get(*at).is_some_and(|m| !matches!(**m, Message::Assistant(_)));
        let mut ends: Vec<usize> = ends.filter(is_sent).collect();
        ends.dedup();
        // The end of the conversation has priority.
        let spare = ends.len().saturating_sub(left);
        request.cache.messages = ends.into_iter().skip(spare).map(|at| (at, ttl)).collect();
        Ok(request)
    }

    // The future of an `async fn` would hold the request until the model has answered.
    fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: ModelNext,
    ) -> impl Future<Output = Result<ModelResponse>> + Send {
        let model = next.model();
        if self.unsupported == UnsupportedModel::Fail && !model.profile().cache_marks {
            let name = model.name();
            let text =
                format!("`{name}` is not known to honour cache marks, which this agent's `PromptCaching` requires");
            return Either::Left(ready(Err(Error::Model(ModelError::invalid(text)))));
        }
        Either::Right(next.run(request))
    }
}
