//! A second call if the first is slow to start.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest, ModelServer};
use deepagents_models::Hedged;
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};

/// A model that never responds.
struct Silent;

impl ChatModel for Silent {
    fn name(&self) -> &str {
        "test:silent"
    }

    fn stream(&self, _request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        Box::pin(stream::pending())
    }
}

/// A model that fails immediately.
struct Broken;

impl ChatModel for Broken {
    fn name(&self) -> &str {
        "test:broken"
    }

    fn stream(&self, _request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        Box::pin(stream::once(async { Err(ModelError::transport("gone")) }))
    }
}

/// A model of a server whose call waits for a minute to be retried, and then answers.
struct WaitsToRetry(ModelServer);

impl ChatModel for WaitsToRetry {
    fn name(&self) -> &str {
        "test:waiting"
    }

    fn server(&self) -> Option<ModelServer> {
        Some(self.0.clone())
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let after = Duration::from_secs(60);
        let retry = ModelEvent::Retry { error: ModelError::RateLimited("slow".into()), after };
        let answer = stream::once(tokio::time::sleep(after)).flat_map(move |()| answers("a").stream(request.clone()));
        Box::pin(stream::iter([Ok(retry)]).chain(answer))
    }
}

/// A scripted model at a server.
struct At {
    model: ScriptedModel,
    server: ModelServer,
}

impl ChatModel for At {
    deepagents_core::forward_model!([.model]; name, stream);

    fn server(&self) -> Option<ModelServer> {
        Some(self.server.clone())
    }
}

fn answers(text: &str) -> ScriptedModel {
    ScriptedModel::new([Turn::text(text)])
}

#[tokio::test]
async fn the_second_call_answers_when_the_first_does_not_start_in_time() {
    let model = Hedged::new(Arc::new(Silent), Duration::from_millis(1)).with(Arc::new(answers("b")));
    assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap().message.text(), "b");
    assert_eq!(model.name(), "test:silent");
}

#[tokio::test]
async fn no_second_call_is_made_when_the_first_starts_in_time() {
    let (first, second) = (answers("a"), answers("b"));
    let model = Hedged::new(Arc::new(first), Duration::from_secs(600)).with(Arc::new(second.clone()));
    assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap().message.text(), "a");
    assert!(second.requests().is_empty());
    let broken = Hedged::new(Arc::new(Broken), Duration::from_secs(600)).with(Arc::new(second.clone()));
    assert_eq!(broken.invoke(ModelRequest::new("x")).await.unwrap_err().kind(), "transport");
    assert!(second.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn when_one_hedged_call_fails_the_other_answers() {
    let model = Hedged::new(Arc::new(Silent), Duration::from_millis(1)).with(Arc::new(Broken));
    let waited = tokio::time::timeout(Duration::from_secs(60), model.invoke(ModelRequest::new("x"))).await;
    assert!(waited.is_err(), "the first call may still begin: {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_the_first_call_is_reported_when_it_begins() {
    let second = answers("b");
    let [here, there] = ["here", "there"].map(|host| ModelServer::new(host, 443));
    let other = Arc::new(At { model: second.clone(), server: there });
    let model = Hedged::new(Arc::new(WaitsToRetry(here)), Duration::from_secs(8)).with(other);
    let mut events = model.stream(ModelRequest::new("x"));
    assert!(matches!(events.next().await, Some(Ok(ModelEvent::Retry { .. }))));
    assert!(second.requests().is_empty(), "it was reported before the second call began");
    assert!(matches!(events.next().await, Some(Ok(ModelEvent::Text { delta, .. })) if delta == "b"));
}

#[tokio::test(start_paused = true)]
async fn no_second_call_is_made_to_a_server_that_the_first_one_waits_for() {
    let here = ModelServer::new("here", 443);
    let second = answers("b");
    let other = Arc::new(At { model: second.clone(), server: here.clone() });
    let model = Hedged::new(Arc::new(WaitsToRetry(here)), Duration::from_secs(8)).with(other);
    assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap().message.text(), "a");
    assert!(second.requests().is_empty());
}
