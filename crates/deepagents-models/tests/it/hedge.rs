//! A second call if the first is slow to start.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
use deepagents_models::Hedged;
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::stream::BoxStream;
use futures_util::stream;

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
