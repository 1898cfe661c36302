//! Hedged requests: a second call if the first is slow to start.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::forward_model;
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest, Price};
use futures_core::stream::BoxStream;
use futures_util::future::{BoxFuture, Either};
use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::sleep;

use crate::chain::{note_price, profile_for_any, request_for};

type Events = BoxStream<'static, Result<ModelEvent, ModelError>>;

/// A model that is called a second time if it does not start to respond in time. The call that starts first is used and
/// the other is cancelled. This may cost two calls to avoid waiting for one, so it is never enabled by default.
///
/// The cost of the cancelled call is not counted, as its provider never reports it. An answer is charged at the price
/// of the model that gave it; the price in the [profile](ChatModel::profile) is the higher one, and unknown if one is.
/// If the first call fails before the second one starts, the whole call fails; after that, the other call decides. Time
/// that the first call waits to be retried does not count if the second one would go to the same server.
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

    /// Uses another model for the second call, such as the same one at another provider. A model of another provider
    /// gets neither the [`extra`](deepagents_core::model::ModelSettings::extra) fields nor the
    /// [headers](ModelRequest::headers) of a request, except those of the trace.
    #[must_use]
    pub fn with(self, second: Arc<dyn ChatModel>) -> Self {
        Self { second, ..self }
    }

    /// Returns the events of the call that responds first.
    async fn race(self, request: ModelRequest) -> Events {
        let second = request_for(&*self.second, &*self.first, &request);
        let one_server =
            self.first.server().is_some_and(|server| self.second.server().is_some_and(|two| two == server));
        let race = Race {
            price: self.first.profile().price,
            first: self.first.stream(request),
            second: (self.second, second),
            timer: sleep(self.after).boxed(),
            after: self.after,
            one_server,
        };
        stream::unfold(Phase::First(Box::new(race)), Phase::next).boxed()
    }
}

/// A first call that has not started to respond.
struct Race {
    first: Events,
    price: Option<Price>,
    second: (Arc<dyn ChatModel>, ModelRequest),
    timer: BoxFuture<'static, ()>,
    after: Duration,
    /// Whether both calls go to one server, which then holds back both.
    one_server: bool,
}

enum Phase {
    First(Box<Race>),
    Rest(Events),
}

impl Phase {
    /// Returns the next event. A wait of the first call is reported when it begins: it must not look like a slow model.
    async fn next(self) -> Option<(Result<ModelEvent, ModelError>, Self)> {
        let mut race = match self {
            Self::First(race) => race,
            Self::Rest(mut events) => return Some((events.next().await?, Self::Rest(events))),
        };
        let event = match futures_util::future::select(race.first.next(), &mut race.timer).await {
            Either::Left((event, _)) => Some(event),
            Either::Right(_) => None,
        };
        match event {
            Some(Some(Ok(ModelEvent::Retry { error, after }))) => {
                if race.one_server {
                    race.timer = sleep(after.saturating_add(race.after)).boxed();
                }
                Some((Ok(ModelEvent::Retry { error, after }), Self::First(race)))
            }
            Some(event) => {
                let started = StartedCall {
                    received: event.into_iter().collect(),
                    rest: race.first,
                    failed: false,
                    price: race.price,
                };
                let mut events = started.events();
                Some((events.next().await?, Self::Rest(events)))
            }
            None => {
                let mut events = race.both().await;
                Some((events.next().await?, Self::Rest(events)))
            }
        }
    }
}

impl Race {
    /// Makes the second call. Returns the events of the call that starts to respond, or of the other one if it fails.
    async fn both(self) -> Events {
        let (second, request) = self.second;
        let one = begin(self.first, self.price).boxed();
        let two = begin(second.stream(request), second.profile().price).boxed();
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
    price: Option<Price>,
}

impl StartedCall {
    fn events(self) -> Events {
        let price = self.price;
        let noted = move |mut event| {
            if let Ok(ModelEvent::Finished(output)) = &mut event {
                note_price(output, price);
            }
            event
        };
        stream::iter(self.received).chain(self.rest).map(noted).boxed()
    }
}

/// Reads a call up to the first piece of its response, skipping void attempts.
async fn begin(mut events: Events, price: Option<Price>) -> StartedCall {
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
            return StartedCall { received, rest: events, failed, price };
        }
    }
}

impl ChatModel for Hedged {
    forward_model!([.first]; name, server, count_tokens);

    /// Returns the capabilities of the first model, reduced to the limits of both, since either may answer.
    fn profile(&self) -> ModelProfile {
        profile_for_any([&self.first, &self.second])
    }

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
