//! Fallback from one model to another.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest, ModelServer};
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use crate::chain::{note_price, profile_for_any, request_for};

/// How long a failed model is skipped.
const COOL_DOWN: Duration = Duration::from_secs(60);

/// Decides whether the next model is called after an error.
type PassesOn = dyn Fn(&ModelError) -> bool + Send + Sync;

/// A chain of models: if one cannot respond, the next one is called.
///
/// By default, the next model is called if the provider is down, overloaded, rate limited (after its own retries) or
/// rejects the key, or if its response violates the protocol. An invalid or oversized request would fail everywhere and
/// is not passed on. Output before the failure is void, which a [`ModelEvent::Retry`] tells the reader.
///
/// A failed model is skipped for some time, so that subsequent calls go to one that works. Clones share this state, so
/// it applies to sub-agents too.
///
/// Each provider receives the canonical form of what others produced. The
/// [`extra`](deepagents_core::model::ModelSettings::extra) fields and the [headers](ModelRequest::headers) of a request
/// are specific to the first model's provider and are removed for models of other providers, except the headers of the
/// trace. The [time limit](deepagents_core::model::ModelSettings::timeout) of a request is that of each model's call.
///
/// An answer is charged at the price of the model that gave it. The price in the [profile](ChatModel::profile) is the
/// highest of all models, and unknown if that of one is.
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
pub struct Fallback {
    models: Vec<Arc<dyn ChatModel>>,
    cool_down: Duration,
    passes_on: Arc<PassesOn>,
    shared: Arc<Shared>,
}

/// State shared by clones.
#[derive(Default)]
struct Shared {
    /// When each model that failed is no longer skipped, by its index.
    passed_over: Mutex<HashMap<usize, Instant>>,
    /// Index of the model that responded last.
    last: AtomicUsize,
}

impl Fallback {
    /// Creates a chain that starts with this model, which determines the chain's name and, mostly, its profile.
    pub fn new(first: Arc<dyn ChatModel>) -> Self {
        Self { models: vec![first], cool_down: COOL_DOWN, passes_on: Arc::new(passes_on), shared: Arc::default() }
    }

    /// Appends a model to the chain.
    #[must_use]
    pub fn then(mut self, next: Arc<dyn ChatModel>) -> Self {
        self.models.push(next);
        // Clones may continue with other models, for which this state would be wrong.
        Self { shared: Arc::default(), ..self }
    }

    /// Sets how long a failed model is skipped.
    #[must_use]
    pub fn cool_down(self, time: Duration) -> Self {
        Self { cool_down: time, ..self }
    }

    /// Sets which errors are passed on to the next model, such as `ModelError::is_retryable` alone.
    #[must_use]
    pub fn when(self, passes_on: impl Fn(&ModelError) -> bool + Send + Sync + 'static) -> Self {
        Self { passes_on: Arc::new(passes_on), ..self }
    }

    /// Returns the name of the model that responded last.
    pub fn current(&self) -> &str {
        self.models.get(self.shared.last.load(Ordering::Relaxed)).map_or("", |model| model.name())
    }

    fn passed_over(&self) -> MutexGuard<'_, HashMap<usize, Instant>> {
        self.shared.passed_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the order of calls: models that are not skipped come first.
    fn order(&self) -> VecDeque<usize> {
        let (now, passed_over) = (Instant::now(), self.passed_over());
        let is_skipped = |at: &usize| passed_over.get(at).is_some_and(|until| *until > now);
        let (later, first): (Vec<usize>, Vec<usize>) = (0..self.models.len()).partition(is_skipped);
        first.into_iter().chain(later).collect()
    }

    /// Returns the model that would be called now.
    fn next_up(&self) -> Option<&Arc<dyn ChatModel>> {
        self.models.get(self.order().front().copied().unwrap_or_default())
    }

    /// Adapts the request for a model of the chain.
    fn request_for(&self, model: &dyn ChatModel, request: &ModelRequest) -> ModelRequest {
        request_for(model, self.models.first().map_or(model, |first| &**first), request)
    }

    /// Skips a model that failed for some time.
    fn pass_over(&self, at: usize, error: &ModelError) {
        let after = error.info().retry_after.unwrap_or_default().max(self.cool_down);
        self.passed_over().extend(Instant::now().checked_add(after).map(|until| (at, until)));
    }
}

/// Returns whether another model may succeed.
fn passes_on(error: &ModelError) -> bool {
    error.is_retryable() || matches!(error, ModelError::Auth(_) | ModelError::Protocol(_))
}

struct Call {
    chain: Fallback,
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
                let model = self.chain.models.get(at)?;
                let events = model.stream(self.chain.request_for(&**model, &self.request));
                self.asked.insert((at, events))
            }
        };
        let at = *at;
        let told =
            events.next().await.unwrap_or_else(|| Err(ModelError::truncated("the model stopped without an answer")));
        match told {
            Err(error) if (self.chain.passes_on)(&error) => {
                self.chain.pass_over(at, &error);
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
            Ok(ModelEvent::Finished(mut output)) => {
                self.chain.passed_over().remove(&at);
                self.chain.shared.last.store(at, Ordering::Relaxed);
                self.order.clear();
                self.asked = None;
                let price = self.chain.models.get(at).and_then(|model| model.profile().price);
                note_price(&mut output, price);
                Some(Ok(ModelEvent::Finished(output)))
            }
            told => Some(told),
        }
    }
}

impl ChatModel for Fallback {
    fn name(&self) -> &str {
        self.models.first().map_or("", |model| model.name())
    }

    /// Returns the capabilities of the first model, reduced to the limits of all, since any of them may be called.
    fn profile(&self) -> ModelProfile {
        profile_for_any(&self.models)
    }

    /// Returns the server of the model that would be called now.
    fn server(&self) -> Option<ModelServer> {
        self.next_up()?.server()
    }

    /// Counts with the model that would be called now.
    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'static, Result<Option<u64>, ModelError>> {
        match self.next_up() {
            Some(model) => model.count_tokens(self.request_for(&**model, &request)),
            None => Box::pin(std::future::ready(Ok(None))),
        }
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let call = Call { order: self.order(), chain: self.clone(), request, asked: None };
        Box::pin(stream::unfold(call, |mut call| async move { call.next().await.map(|told| (told, call)) }))
    }
}

impl std::fmt::Debug for Fallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.models.iter().map(|model| model.name()).collect();
        f.debug_struct("Fallback").field("models", &names).field("cool_down", &self.cool_down).finish_non_exhaustive()
    }
}
