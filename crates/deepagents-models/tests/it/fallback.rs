//! Fallback models.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest, Price, PriceTier};
use deepagents_models::scripted::{ScriptedModel, Turn};
use deepagents_models::{Dialect, Fallback, Hedged, ModelConfig, Ollama, OpenAiChat, RetryPolicy};
use serde_json::json;

use crate::server::{Reply, Server, anthropic_text, events, output, retries, sse};

fn busy() -> Reply {
    Reply::json(529, &json!({"error": {"type": "overloaded_error", "message": "busy"}}))
}

fn once(server: &Server) -> ModelConfig {
    ModelConfig { retry: Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }), ..server.config() }
}

fn chain(first: &Server, second: &Server) -> Fallback {
    let claude = deepagents_models::Anthropic::new("claude-sonnet-4-5", once(first)).unwrap();
    let chat = OpenAiChat::new(Dialect::named("groq").unwrap(), "openai/gpt-oss-120b", once(second)).unwrap();
    Fallback::new(Arc::new(claude)).then(Arc::new(chat))
}

fn chat(text: &str) -> Reply {
    let delta = json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]});
    Reply::sse(sse(&[delta]) + "data: [DONE]\n\n")
}

#[tokio::test]
async fn the_fallback_model_answers_and_stays_first_during_the_cooldown() {
    let (first, second) = (Server::start([busy()]).await, Server::start([chat("b"), chat("b")]).await);
    let model = chain(&first, &second);
    let told = events(&model, ModelRequest::new("x")).await;
    assert_eq!(retries(&told), [("overloaded", Duration::ZERO)]);
    assert_eq!((output(&told).message.text(), model.current()), ("b".into(), "groq:openai/gpt-oss-120b"));
    // A subagent has a clone.
    assert_eq!(model.clone().invoke(ModelRequest::new("y")).await.unwrap().message.text(), "b");
    assert_eq!((first.seen().len(), second.seen().len()), (1, 2));
    assert_eq!(model.name(), "anthropic:claude-sonnet-4-5");
    assert_eq!(model.profile().images, Some(false), "any of them may be asked");
}

#[tokio::test]
async fn a_model_is_retried_after_its_cooldown_and_a_sole_model_always() {
    let (first, second) =
        (Server::start([busy(), Reply::sse(anthropic_text("a"))]).await, Server::start([chat("b")]).await);
    let model = chain(&first, &second).cool_down(Duration::ZERO);
    for text in ["b", "a"] {
        assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap().message.text(), text);
    }
    let alone = Server::start([busy(), Reply::sse(anthropic_text("a"))]).await;
    let model = Fallback::new(Arc::new(deepagents_models::Anthropic::new("m", once(&alone)).unwrap()));
    assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap_err().kind(), "overloaded");
    assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap().message.text(), "a");
}

#[tokio::test]
async fn output_before_a_failure_is_discarded_and_invalid_requests_do_not_fall_back() {
    let half = sse(&[
        json!({"type": "message_start", "message": {"id": "m", "usage": {}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hal"}}),
    ]);
    let (first, second) = (Server::start([Reply::sse(half)]).await, Server::start([chat("whole")]).await);
    let told = events(&chain(&first, &second), ModelRequest::new("x")).await;
    assert!(matches!(told[0].as_ref().unwrap(), ModelEvent::Text { delta, .. } if delta == "hal"));
    assert!(matches!(told[1].as_ref().unwrap(), ModelEvent::Retry { error, .. } if error.kind() == "truncated"));
    assert_eq!(output(&told).message.text(), "whole");

    let wrong = Reply::json(400, &json!({"error": {"type": "invalid_request_error", "message": "no"}}));
    let (first, second) = (Server::start([wrong]).await, Server::start([]).await);
    let error = chain(&first, &second).invoke(ModelRequest::new("x")).await.unwrap_err();
    assert_eq!((error.kind(), second.seen().len()), ("invalid_request", 0));
}

#[tokio::test]
async fn the_errors_that_trigger_a_fallback_are_configurable() {
    let wrong = || Reply::json(400, &json!({"error": {"type": "invalid_request_error", "message": "no"}}));
    let (first, second) = (Server::start([wrong(), busy()]).await, Server::start([chat("b")]).await);
    let model = chain(&first, &second).cool_down(Duration::ZERO).when(|error| error.kind() == "invalid_request");
    assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap().message.text(), "b");
    assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap_err().kind(), "overloaded");
    assert_eq!((first.seen().len(), second.seen().len()), (2, 1));
}

#[tokio::test]
async fn the_last_error_is_returned_when_every_model_fails() {
    let (first, second) = (Server::start([busy()]).await, Server::start([busy()]).await);
    let nobody = Ollama::new("m", ModelConfig { base_url: Some("http://127.0.0.1:1".into()), ..once(&first) }).unwrap();
    let model = chain(&first, &second).then(Arc::new(nobody));
    let told = events(&model, ModelRequest::new("x")).await;
    assert_eq!(retries(&told).len(), 2);
    assert_eq!(told.last().unwrap().as_ref().unwrap_err().kind(), "transport");
}

#[tokio::test]
async fn provider_specific_fields_are_not_sent_to_another_provider() {
    let mut request = ModelRequest::new("x");
    request.settings.temperature = Some(0.5);
    request.settings.extra.insert("prompt_cache_key".to_owned(), json!("mine"));
    let (first, second) = (Server::start([busy()]).await, Server::start([chat("b")]).await);
    chain(&first, &second).invoke(request.clone()).await.unwrap();
    assert_eq!(first.seen()[0].json()["prompt_cache_key"], "mine");
    let passed_on = second.seen()[0].json();
    assert_eq!((&passed_on["prompt_cache_key"], &passed_on["temperature"]), (&json!(null), &json!(0.5)));

    // Another model of the same provider supports them.
    let (first, second) = (Server::start([busy()]).await, Server::start([Reply::sse(anthropic_text("b"))]).await);
    let claude =
        |name, server| Arc::new(deepagents_models::Anthropic::new(name, once(server)).unwrap()) as Arc<dyn ChatModel>;
    let model = Fallback::new(claude("claude-opus-4-5", &first)).then(claude("claude-haiku-4-5", &second));
    model.invoke(request).await.unwrap();
    assert_eq!(second.seen()[0].json()["prompt_cache_key"], "mine");
}

#[tokio::test]
async fn headers_are_not_sent_to_another_provider_except_those_of_the_trace() {
    let mut request = ModelRequest::new("x");
    let header = |name: &str| (name.to_owned(), "mine".to_owned());
    request.headers = vec![header("traceparent"), header("x-session-affinity")];
    let (first, second) = (Server::start([busy()]).await, Server::start([chat("b")]).await);
    chain(&first, &second).invoke(request).await.unwrap();
    let [first, second] = [first, second].map(|server| server.seen()[0].head.clone());
    assert!(first.contains("traceparent: mine") && first.contains("x-session-affinity: mine"), "{first}");
    assert!(second.contains("traceparent: mine") && !second.contains("x-session-affinity"), "{second}");
}

#[tokio::test]
async fn models_whose_names_have_no_provider_are_of_different_providers() {
    let mut request = ModelRequest::new("x");
    request.settings.extra.insert("prompt_cache_key".to_owned(), json!("mine"));
    let first = ScriptedModel::new([Turn::error(ModelError::Overloaded("busy".into()))]).with_name("one");
    let second = ScriptedModel::new([Turn::text("b")]).with_name("two");
    Fallback::new(Arc::new(first)).then(Arc::new(second.clone())).invoke(request).await.unwrap();
    assert!(second.requests()[0].settings.extra.is_empty());
}

#[tokio::test]
async fn the_server_is_that_of_the_model_that_would_be_called_now() {
    let (first, second) = (Server::start([busy()]).await, Server::start([chat("b")]).await);
    let model = chain(&first, &second);
    let address =
        |model: &dyn ChatModel| model.server().map(|server| format!("http://{}:{}", server.host, server.port));
    assert_eq!(address(&model), Some(first.url.clone()));
    model.invoke(ModelRequest::new("x")).await.unwrap();
    assert_eq!(address(&model), Some(second.url.clone()));
    let hedged = Hedged::new(Arc::new(first.anthropic()), Duration::from_secs(1)).with(Arc::new(second.anthropic()));
    assert_eq!(address(&hedged), Some(first.url.clone()));
}

#[test]
fn the_price_of_a_chain_is_the_highest_and_unknown_if_one_is() {
    let priced = |price: Option<Price>| {
        let mut profile = ModelProfile::default();
        profile.price = price;
        Arc::new(ScriptedModel::new([]).with_profile(profile))
    };
    let mut tiered = Price::new(2.0, 3.0).cached(0.5, 1.0);
    tiered.above = Some(PriceTier { tokens: 100, input: 4.0, output: 5.0, cache_read: 1.0, cache_write: 2.0 });
    let chain = |other| Fallback::new(priced(Some(Price::new(1.0, 9.0).cached(0.1, 3.0)))).then(priced(other));
    let mut highest = Price::new(2.0, 9.0).cached(0.5, 3.0);
    highest.above = Some(PriceTier { tokens: 100, input: 4.0, output: 9.0, cache_read: 1.0, cache_write: 3.0 });
    assert_eq!(chain(Some(tiered)).profile().price, Some(highest));
    assert_eq!(chain(None).profile().price, None);
}
