//! Models that stand in for each other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest};
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

/// How long a model that failed is passed over.
const COOL_DOWN: Duration = Duration::from_secs(60);

/// Whether the next model is asked after an error.
type PassesOn = dyn Fn(&ModelError) -> bool + Send + Sync;

/// A chain of models: when one cannot answer, the next one is asked.
///
/// Which errors do that is a matter of their class: a provider that is away, overloaded, rate limited (its own retries
/// used up) or refuses the key. A request that is wrong, or too long, is so for all of them. What a model had told before
/// it failed is void, which its reader learns by a [`ModelEvent::Retry`]. A model that failed is passed over for a time, so
/// that the calls that follow go to the one that works, also those of sub-agents: clones share what is known. Each provider
/// is shown what others said in the canonical view. The [`extra`](deepagents_core::model::ModelSettings::extra) fields of a
/// request are in the words of the first model's provider, so models of other providers are asked without them.
///
/// ```
/// use deepagents_models::{Fallback, ModelConfig, Registry};
/// let mut registry = Registry::new();
/// registry.configure("anthropic", ModelConfig { api_key: Some("a key".into()), ..ModelConfig::default() });
/// let first = registry.model("anthropic:claude-sonnet-4-5")?;
/// let model = Fallback::new(first).then(registry.model("ollama:qwen3:8b")?);
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Fallback(Arc<Chain>);

struct Chain {
    models: Vec<Arc<dyn ChatModel>>,
    cool_down: Duration,
    passes_on: Arc<PassesOn>,
    /// Until when each is passed over.
    passed_over: Mutex<Vec<Option<Instant>>>,
    /// The one that answered last.
    last: AtomicUsize,
}

impl Fallback {
    /// A chain that begins with this model, whose name and profile are those of the chain.
    pub fn new(first: Arc<dyn ChatModel>) -> Self {
        Self::from_parts(vec![first], COOL_DOWN, Arc::new(passes_on))
    }

    /// The chain with one more model at its end.
    #[must_use]
    pub fn then(self, next: Arc<dyn ChatModel>) -> Self {
        let models = self.0.models.iter().cloned().chain([next]).collect();
        Self::from_parts(models, self.0.cool_down, self.0.passes_on.clone())
    }

    /// The chain with another time for which a model that failed is passed over.
    #[must_use]
    pub fn cool_down(self, time: Duration) -> Self {
        Self::from_parts(self.0.models.clone(), time, self.0.passes_on.clone())
    }

    /// The chain with another rule for which errors the next model is asked, such as `ModelError::is_retryable` alone.
    #[must_use]
    pub fn when(self, passes_on: impl Fn(&ModelError) -> bool + Send + Sync + 'static) -> Self {
        Self::from_parts(self.0.models.clone(), self.0.cool_down, Arc::new(passes_on))
    }

    fn from_parts(models: Vec<Arc<dyn ChatModel>>, cool_down: Duration, passes_on: Arc<PassesOn>) -> Self {
        let passed_over = Mutex::new(vec![None; models.len()]);
        Self(Arc::new(Chain { models, cool_down, passes_on, passed_over, last: AtomicUsize::new(0) }))
    }

    /// The name of the model that answered last.
    pub fn current(&self) -> &str {
        self.0.models.get(self.0.last.load(Ordering::Relaxed)).map_or("", |model| model.name())
    }
}

impl Chain {
    /// The order in which they are asked: those that are not passed over first.
    fn order(&self) -> VecDeque<usize> {
        let now = Instant::now();
        let passed_over = self.passed_over.lock().unwrap_or_else(PoisonError::into_inner);
        let (later, first): (Vec<usize>, Vec<usize>) = (0..self.models.len())
            .partition(|at| passed_over.get(*at).copied().flatten().is_some_and(|until| until > now));
        first.into_iter().chain(later).collect()
    }

    /// The request as a model of the chain understands it.
    fn request_for(&self, at: usize, request: &ModelRequest) -> ModelRequest {
        let provider = |at: usize| self.models.get(at).and_then(|model| Some(model.name().split_once(':')?.0));
        let mut request = request.clone();
        if provider(at) != provider(0) {
            request.settings.extra.clear();
        }
        request
    }

    fn mark(&self, at: usize, failed: Option<&ModelError>) {
        let after = failed.map(|error| error.info().retry_after.unwrap_or_default().max(self.cool_down));
        let mut passed_over = self.passed_over.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = passed_over.get_mut(at) {
            *until = after.and_then(|after| Instant::now().checked_add(after));
        }
    }
}

/// Whether another model may do better.
fn passes_on(error: &ModelError) -> bool {
    error.is_retryable() || matches!(error, ModelError::Auth(_) | ModelError::Protocol(_))
}

struct Call {
    chain: Arc<Chain>,
    request: ModelRequest,
    order: VecDeque<usize>,
    asked: Option<(usize, BoxStream<'static, Result<ModelEvent, ModelError>>)>,
}

impl Call {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        let (at, events) = match &mut self.asked {
            Some(asked) => asked,
            None => {
                let at = self.order.pop_front()?;
                let events = self.chain.models.get(at)?.stream(self.chain.request_for(at, &self.request));
                self.asked.insert((at, events))
            }
        };
        let at = *at;
        let told =
            events.next().await.unwrap_or_else(|| Err(ModelError::truncated("the model stopped without an answer")));
        match told {
            Err(error) if (self.chain.passes_on)(&error) => {
                self.chain.mark(at, Some(&error));
                self.asked = None;
                if self.order.is_empty() {
                    return Some(Err(error));
                }
                Some(Ok(ModelEvent::Retry { error, after: Duration::ZERO }))
            }
            Err(error) => {
                self.order.clear();
                self.asked = None;
                Some(Err(error))
            }
            Ok(ModelEvent::Finished(output)) => {
                self.chain.mark(at, None);
                self.chain.last.store(at, Ordering::Relaxed);
                self.order.clear();
                self.asked = None;
                Some(Ok(ModelEvent::Finished(output)))
            }
            told => Some(told),
        }
    }
}

impl ChatModel for Fallback {
    fn name(&self) -> &str {
        self.0.models.first().map_or("", |model| model.name())
    }

    /// What the first can do, within the smallest window of all: any of them may be asked.
    fn profile(&self) -> ModelProfile {
        let mut profile = self.0.models.first().map(|model| model.profile()).unwrap_or_default();
        for model in self.0.models.iter().skip(1) {
            let other = model.profile();
            let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
            profile.context_window = least(profile.context_window, other.context_window);
            profile.max_output = least(profile.max_output, other.max_output);
            let both = |a: Option<bool>, b: Option<bool>| if b == Some(false) { b } else { a };
            profile.structured_output = both(profile.structured_output, other.structured_output);
            profile.images = both(profile.images, other.images);
            profile.audio = both(profile.audio, other.audio);
            profile.video = both(profile.video, other.video);
            profile.pdf = both(profile.pdf, other.pdf);
        }
        profile
    }

    /// As the model counts that would be asked now.
    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'static, Result<Option<u64>, ModelError>> {
        let first = self.0.order().front().copied().unwrap_or_default();
        match self.0.models.get(first) {
            Some(model) => model.count_tokens(self.0.request_for(first, &request)),
            None => Box::pin(std::future::ready(Ok(None))),
        }
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let chain = Arc::clone(&self.0);
        let call = Call { order: chain.order(), chain, request, asked: None };
        Box::pin(stream::unfold(call, |mut call| async move { call.next().await.map(|told| (told, call)) }))
    }
}

impl std::fmt::Debug for Fallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.0.models.iter().map(|model| model.name()).collect();
        f.debug_struct("Fallback").field("models", &names).field("cool_down", &self.0.cool_down).finish_non_exhaustive()
    }
}
