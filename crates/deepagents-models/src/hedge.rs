//! Hedged requests: a second call if the first is slow to start.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::forward_model;
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
use futures_core::stream::BoxStream;
use futures_util::future::Either;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::sleep;

type Events = BoxStream<'static, Result<ModelEvent, ModelError>>;

/// A model that is called a second time if it does not start to respond in time. The call that starts first is used and
/// the other is cancelled. This may cost two calls to avoid waiting for one, so it is never enabled by default.
///
/// The cost of the cancelled call is not counted, as its provider never reports it. If the first call fails before the
/// second one starts, the whole call fails; after that, the other call decides.
///
/// ```
/// use std::time::Duration;
/// use deepagents_models::{Hedged, ModelConfig, Registry};
/// let mut registry = Registry::new();
/// registry.configure("anthropic", ModelConfig { api_key: Some("a key".into()), ..ModelConfig::default() });
/// let model = Hedged::new(registry.model("anthropic:claude-sonnet-4-5")?, Duration::from_secs(8));
/// # let _ = model;
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Hedged {
    first: Arc<dyn ChatModel>,
    second: Arc<dyn ChatModel>,
    after: Duration,
}

impl Hedged {
    /// Calls the model again after this time.
    pub fn new(model: Arc<dyn ChatModel>, after: Duration) -> Self {
        Self { second: model.clone(), first: model, after }
    }

    /// Uses another model for the second call, such as the same one at another provider.
    #[must_use]
    pub fn with(self, second: Arc<dyn ChatModel>) -> Self {
        Self { second, ..self }
    }

    async fn race(self, request: ModelRequest) -> Events {
        let one = begin(self.first.stream(request.clone())).boxed();
        let one = match futures_util::future::select(one, sleep(self.after).boxed()).await {
            Either::Left((begun, _)) => return begun.events(),
            Either::Right(((), one)) => one,
        };
        let two = begin(self.second.stream(request)).boxed();
        let (begun, other) = futures_util::future::select(one, two).await.factor_first();
        match begun.failed {
            false => begun.events(),
            true => {
                // The failed call may hold what the other one waits for.
                drop(begun);
                other.await.events()
            }
        }
    }
}

/// A call that has started to respond, or has failed.
struct StartedCall {
    received: Vec<Result<ModelEvent, ModelError>>,
    rest: Events,
    failed: bool,
}

impl StartedCall {
    fn events(self) -> Events {
        stream::iter(self.received).chain(self.rest).boxed()
    }
}

/// Reads up to the first piece of a response, skipping void attempts.
async fn begin(mut events: Events) -> StartedCall {
    let mut received = Vec::new();
    loop {
        let event = events.next().await;
        let (goes_on, failed) = match &event {
            Some(Ok(ModelEvent::Retry { .. })) => (true, false),
            Some(Ok(_)) => (false, false),
            Some(Err(_)) | None => (false, true),
        };
        received.extend(event);
        if !goes_on {
            return StartedCall { received, rest: events, failed };
        }
    }
}

impl ChatModel for Hedged {
    forward_model!([.first]; name, profile, count_tokens);

    fn stream(&self, request: ModelRequest) -> Events {
        stream::once(self.clone().race(request)).flatten().boxed()
    }
}

impl std::fmt::Debug for Hedged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = [self.first.name(), self.second.name()];
        f.debug_struct("Hedged").field("models", &names).field("after", &self.after).finish()
    }
}
