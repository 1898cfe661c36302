//! Calls over a real connection: retries, timeouts, errors.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::message::{Message, Messages};
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
use deepagents_models::{Anthropic, Fallback, ModelConfig, Registry, RetryPolicy, SharedBackoff, Timeouts};
use futures_util::StreamExt;
use serde_json::json;
use tokio::net::TcpListener;

use crate::server::{Reply, Server, anthropic_stream, anthropic_text, events, output, retries, sse};

fn rate_limited() -> Reply {
    Reply::json(429, &json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}))
}

/// The first half of a streamed response.
fn half() -> String {
    let delta = json!({"type": "text_delta", "text": "half"});
    let mut list = anthropic_stream(&[(json!({"type": "text", "text": ""}), vec![delta])], "end_turn");
    list.truncate(4);
    sse(&list)
}

async fn failure(model: &dyn ChatModel) -> ModelError {
    model.invoke(ModelRequest::new("x")).await.unwrap_err()
}

#[tokio::test]
async fn a_rate_limit_is_waited_out_and_zero_means_immediately() {
    let server = Server::start([
        rate_limited().header("retry-after", "0"),
        rate_limited().header("retry-after-ms", "20"),
        Reply::sse(anthropic_text("ok")),
    ])
    .await;
    let events = events(&server.anthropic(), ModelRequest::new("x")).await;
    assert_eq!(retries(&events), [("rate_limited", Duration::ZERO), ("rate_limited", Duration::from_millis(20))]);
    assert_eq!(output(&events).message.text(), "ok");
    let seen = server.seen();
    assert!(seen.iter().all(|request| request.body == seen[0].body));
    assert!(seen[0].head.starts_with("POST /v1/messages "));
    assert!(seen[0].head.to_lowercase().contains("x-api-key: sk-very-secret"));
    assert_eq!(seen[0].json()["stream"], true);
}

#[tokio::test]
async fn a_mid_stream_overload_discards_partial_output_and_retries() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let server = Server::start([
        Reply::sse(half() + "event: error\n" + &sse(&[overloaded])),
        Reply::sse(anthropic_text("whole")),
    ])
    .await;
    let events = events(&server.anthropic(), ModelRequest::new("x")).await;
    let shape: Vec<String> = events
        .iter()
        .map(|event| match event.as_ref().unwrap() {
            ModelEvent::Text { delta, .. } => delta.clone(),
            ModelEvent::Retry { error, .. } => error.kind().to_owned(),
            ModelEvent::Finished(output) => format!("finished {}", output.message.text()),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(shape, ["half", "overloaded", "whole", "finished whole"]);
}

#[tokio::test]
async fn a_cut_stream_ends_as_truncated_after_the_last_attempt() {
    let cuts = [Reply::sse(half()).cut(), Reply::sse(half()), Reply::sse(half() + "data: {\"type\": \"mess")];
    let server = Server::start(cuts).await;
    let policy = RetryPolicy { max_attempts: 3, base: Duration::from_millis(1), ..RetryPolicy::default() };
    let model = Anthropic::new("m", ModelConfig { retry: Some(policy), ..server.config() }).unwrap();
    let events = events(&model, ModelRequest::new("x")).await;
    assert_eq!(retries(&events).iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), ["truncated", "truncated"]);
    assert!(matches!(events.last(), Some(Err(ModelError::Truncated(_)))), "{:?}", events.last());
}

#[tokio::test]
async fn a_stream_cut_within_the_frames_after_the_answer_is_complete() {
    let whole = anthropic_text("whole");
    let chat = sse(&[json!({"choices": [{"index": 0, "delta": {"content": "whole"}, "finish_reason": "stop"}]})]);
    let cut = |text: &str| Reply::sse(text);
    let replies =
        [cut(whole.strip_suffix("_stop\"}\n\n").unwrap()), cut(&format!("{chat}data: {{\"usage\": {{\"prom"))];
    let server = Server::start(replies).await;
    let models: [&dyn ChatModel; 2] = [&server.anthropic(), &server.chat("vllm")];
    for model in models {
        let told = events(model, ModelRequest::new("x")).await;
        assert!(retries(&told).is_empty(), "{told:?}");
        assert_eq!(output(&told).message.text(), "whole");
    }
}

#[tokio::test]
async fn permanent_failures_are_not_retried() {
    let refusal = |status, kind: &str, message: &str| {
        Reply::json(status, &json!({"type": "error", "error": {"type": kind, "message": message}}))
    };
    let server = Server::start([
        refusal(401, "authentication_error", "your key sk-very-secret is wrong").header("request-id", "req_1"),
        refusal(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        refusal(429, "insufficient_quota", "You exceeded your current quota"),
        Reply::json(307, &json!({})).header("location", "http://elsewhere.example/"),
    ])
    .await;
    let model = server.anthropic();
    let auth = failure(&model).await;
    assert_eq!((auth.kind(), auth.info().request_id.as_deref()), ("auth", Some("req_1")));
    assert!(!format!("{auth} {auth:?}").contains("very-secret"), "{auth:?}");
    assert_eq!(failure(&model).await.kind(), "context_length");
    assert_eq!(failure(&model).await.kind(), "auth");
    assert_eq!(failure(&model).await.kind(), "invalid_request");
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn an_unreachable_server_is_named_in_the_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() });
    let base_url = Some(format!("http://user:pass@127.0.0.1:{port}"));
    let model = Anthropic::new("m", ModelConfig { retry, base_url, ..ModelConfig::default() }).unwrap();
    let error = failure(&model).await.to_string();
    let want = format!("could not connect to http://127.0.0.1:{port}: connection refused; is the server running?");
    assert!(error.contains(&want), "{error}");
}

#[tokio::test]
async fn silence_before_or_during_an_answer_times_out() {
    let silent = || Reply::sse("").then_silence();
    let server = Server::start([silent(), Reply::sse(half()).then_silence(), silent()]).await;
    let timeouts = Timeouts {
        first_byte: Duration::from_millis(40),
        idle: Duration::from_millis(40),
        answer: Duration::from_millis(40),
        ..Timeouts::default()
    };
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() });
    let config = ModelConfig { timeouts: Some(timeouts), retry, ..server.config() };
    let model = Anthropic::new("m", config.clone()).unwrap();
    for _ in 0..2 {
        let error = failure(&model).await;
        assert!(error.kind() == "transport" && error.to_string().contains("127.0.0.1"), "{error}");
    }
    let plain = Anthropic::new("m", ModelConfig { streaming: Some(false), ..config }).unwrap();
    assert_eq!(failure(&plain).await.kind(), "transport");
}

#[tokio::test]
async fn a_timeout_beyond_the_end_of_time_is_none() {
    let max = Duration::MAX;
    let timeouts = Timeouts { connect: max, first_byte: max, idle: max, answer: max };
    let server = Server::start([
        Reply::sse(anthropic_text("hi")),
        Reply::json(
            200,
            &json!({
                "id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}],
                "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1},
            }),
        ),
    ])
    .await;
    for streaming in [true, false] {
        let config = ModelConfig { timeouts: Some(timeouts.clone()), streaming: Some(streaming), ..server.config() };
        let mut request = ModelRequest::new("x");
        request.settings.timeout = Some(max);
        let answer = Anthropic::new("m", config).unwrap().invoke(request).await.unwrap();
        assert_eq!(answer.message.text(), "hi");
    }
}

#[tokio::test]
async fn a_calls_own_timeout_covers_its_retries() {
    let server = Server::start([rate_limited(), Reply::sse(half()).then_silence()]).await;
    let mut request = ModelRequest::new("x");
    request.settings.timeout = Some(Duration::from_secs(1));
    let error = server.anthropic().invoke(request).await.unwrap_err();
    assert!(error.to_string().contains("settings.timeout"), "{error}");
}

#[tokio::test]
async fn a_wait_beyond_the_budget_is_returned_to_the_caller() {
    let server = Server::start([rate_limited().header("retry-after", "3600")]).await;
    let error = failure(&server.anthropic()).await;
    assert_eq!((error.kind(), error.info().retry_after), ("rate_limited", Some(Duration::from_secs(3600))));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn calls_with_the_same_key_wait_together() {
    let server = Server::start([
        rate_limited().header("retry-after", "3600"),
        Reply::sse(anthropic_text("other key")),
        Reply::sse(anthropic_text("other gate")),
    ])
    .await;
    let backoff = Some(SharedBackoff::new());
    let config = ModelConfig { backoff, ..server.config() };
    let first = Anthropic::new("a", config.clone()).unwrap();
    let second = Anthropic::new("a", config.clone()).unwrap();
    assert_eq!(failure(&first).await.kind(), "rate_limited");
    // Calls are held back for an hour, so the second client sends no request.
    let held = failure(&second).await;
    assert!(held.kind() == "rate_limited" && held.info().retry_after > Some(Duration::from_secs(3000)), "{held}");
    assert_eq!(server.seen().len(), 1);
    let other_key = Anthropic::new("a", ModelConfig { api_key: Some("another".into()), ..config }).unwrap();
    assert_eq!(other_key.invoke(ModelRequest::new("x")).await.unwrap().message.text(), "other key");
    assert_eq!(server.anthropic().invoke(ModelRequest::new("x")).await.unwrap().message.text(), "other gate");
}

#[tokio::test]
async fn a_rate_limit_of_one_model_does_not_hold_back_another_with_the_same_key() {
    let server =
        Server::start([rate_limited().header("retry-after", "3600"), Reply::sse(anthropic_text("smaller"))]).await;
    let mut registry = Registry::new();
    registry.configure("anthropic", server.config());
    let model = |name: &str| registry.model(&format!("anthropic:{name}")).unwrap();
    let chain = Fallback::new(model("large")).then(model("small"));
    assert_eq!(chain.invoke(ModelRequest::new("x")).await.unwrap().message.text(), "smaller");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn calls_that_are_held_back_for_long_are_tried_again_once_a_minute() {
    let server = Server::start([
        rate_limited().header("retry-after", "86400"),
        rate_limited().header("retry-after", "86000"),
        Reply::sse(anthropic_text("the limit was raised")),
        Reply::sse(anthropic_text("for all")),
    ])
    .await;
    let model = Anthropic::new("a", ModelConfig { backoff: Some(SharedBackoff::new()), ..server.config() }).unwrap();
    let a_minute_passes = async || {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(60)).await;
        tokio::time::resume();
    };
    assert_eq!(failure(&model).await.kind(), "rate_limited");
    a_minute_passes().await;
    assert_eq!(failure(&model).await.info().retry_after, Some(Duration::from_secs(86_000)));
    assert!(failure(&model).await.to_string().contains("another call with this key"));
    assert_eq!(server.seen().len(), 2);
    a_minute_passes().await;
    for text in ["the limit was raised", "for all"] {
        assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap().message.text(), text);
    }
}

#[tokio::test]
async fn a_call_delayed_by_another_reports_it_before_waiting() {
    let server =
        Server::start([rate_limited().header("retry-after", "1"), Reply::sse(anthropic_text("after the wait"))]).await;
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() });
    let config = ModelConfig { backoff: Some(SharedBackoff::new()), retry, ..server.config() };
    let given_up = Anthropic::new("a", config.clone()).unwrap();
    assert_eq!(failure(&given_up).await.kind(), "rate_limited");
    let told = events(&Anthropic::new("a", config).unwrap(), ModelRequest::new("x")).await;
    let waits = retries(&told);
    assert!(waits.len() == 1 && waits[0].0 == "rate_limited" && !waits[0].1.is_zero(), "{waits:?}");
    assert!(matches!(told[0].as_ref().unwrap(), ModelEvent::Retry { .. }), "it is told before anything else");
    assert_eq!(output(&told).message.text(), "after the wait");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_call_cancelled_while_waiting_does_not_delay_others() {
    let limited = |after: &str| rate_limited().header("retry-after", after);
    let server = Server::start([limited("200"), limited("100"), Reply::sse(anthropic_text("at once"))]).await;
    let config = ModelConfig { backoff: Some(SharedBackoff::new()), ..server.config() };
    let model = Anthropic::new("a", config.clone()).unwrap();
    let asks = |model: &Anthropic| model.stream(ModelRequest::new("x"));
    let mut first = asks(&model);
    assert!(matches!(first.next().await, Some(Ok(ModelEvent::Retry { .. }))));
    // When it is dropped, a call that it held back is sent immediately, and then waits for its own retry.
    let (mut second, mut third) = (asks(&model), asks(&model));
    assert!(
        matches!(second.next().await, Some(Ok(ModelEvent::Retry { error, .. })) if error.to_string().contains("another call"))
    );
    drop((first, second));
    assert!(matches!(third.next().await, Some(Ok(ModelEvent::Retry { .. }))));
    assert_eq!(server.seen().len(), 2);
    let mut fourth = asks(&Anthropic::new("a", config).unwrap());
    assert!(
        matches!(fourth.next().await, Some(Ok(ModelEvent::Retry { error, .. })) if error.to_string().contains("another call"))
    );
    drop((third, fourth));
    assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap().message.text(), "at once");
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn a_rate_limit_without_a_retry_after_header_also_delays_other_calls() {
    let reset = |after: &str| {
        rate_limited().header("x-ratelimit-remaining-requests", "0").header("x-ratelimit-reset-requests", after)
    };
    let server = Server::start([reset("1h0m3s"), rate_limited()]).await;
    let config = || ModelConfig { backoff: Some(SharedBackoff::new()), ..server.config() };
    let shared = config();
    let first = failure(&Anthropic::new("a", shared.clone()).unwrap()).await;
    assert_eq!((first.kind(), first.info().retry_after), ("rate_limited", Some(Duration::from_secs(3_603))));
    assert_eq!(failure(&Anthropic::new("a", shared).unwrap()).await.kind(), "rate_limited");
    assert_eq!(server.seen().len(), 1);

    // Without a `retry-after`, other calls wait as long as the failed call would before its retry.
    let hour = Duration::from_secs(3_600);
    let slow =
        RetryPolicy { max_attempts: 1, base: 200 * hour, max_delay: 200 * hour, budget: Duration::from_millis(1) };
    let shared = ModelConfig { retry: Some(slow), ..config() };
    assert_eq!(failure(&Anthropic::new("a", shared.clone()).unwrap()).await.kind(), "rate_limited");
    let held = failure(&Anthropic::new("a", shared).unwrap()).await;
    assert!(held.to_string().contains("another call with this key"), "{held}");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn calls_with_one_key_share_a_retry_budget_that_success_refills() {
    let busy = || Reply::json(529, &json!({"error": {"type": "overloaded_error", "message": "busy"}}));
    let ok = || Reply::sse(anthropic_text("ok"));
    let replies = [busy(), busy(), busy(), busy(), ok(), busy(), ok(), busy(), busy(), busy()];
    let server = Server::start(replies).await;
    let backoff = Some(SharedBackoff::with_retry_budget(2));
    let config = ModelConfig { backoff, ..server.config() };
    let model = |name: &str, key: &str| {
        Anthropic::new(name, ModelConfig { api_key: Some(key.into()), ..config.clone() }).unwrap()
    };
    // Each call allows five attempts, but the shared budget allows only two retries.
    assert_eq!(failure(&model("a", "k")).await.kind(), "overloaded");
    assert_eq!(server.seen().len(), 3);
    assert_eq!(failure(&model("b", "k")).await.kind(), "overloaded");
    assert_eq!(server.seen().len(), 4);
    // A successful call returns one retry to the budget; a call that needed a retry returns what it used.
    for _ in 0..2 {
        assert_eq!(model("b", "k").invoke(ModelRequest::new("x")).await.unwrap().message.text(), "ok");
    }
    assert_eq!(failure(&model("a", "k")).await.kind(), "overloaded");
    assert_eq!(server.seen().len(), 9);
    // Another key has its own budget.
    let other = Anthropic::new("a", ModelConfig { api_key: Some("other".into()), ..config.clone() }).unwrap();
    assert!(matches!(events(&other, ModelRequest::new("x")).await[0], Ok(ModelEvent::Retry { .. })));
}

#[tokio::test]
async fn models_from_one_registry_share_the_rate_gate_and_connections() {
    let answers = ["a", "b"].map(|text| Reply::sse(anthropic_text(text)));
    let limited = rate_limited().header("retry-after", "3600");
    let server = Server::start(answers.into_iter().chain([limited])).await;
    let mut registry = Registry::new();
    registry.configure("anthropic", server.config());
    for text in ["a", "b"] {
        let model = registry.model(&format!("anthropic:{text}")).unwrap();
        assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap().message.text(), text);
        // Lets the rest of the response be read in the background.
        tokio::task::yield_now().await;
    }
    let seen = server.seen();
    assert_eq!(seen[0].connection, seen[1].connection, "the connection is used again");
    assert_eq!(failure(&*registry.model("anthropic:a").unwrap()).await.kind(), "rate_limited");
    assert_eq!(failure(&*registry.clone().model("anthropic:a").unwrap()).await.kind(), "rate_limited");
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn an_unstreamed_call_yields_its_answer_as_one_text_event() {
    let answer = json!({"id": "m", "content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn"});
    let server = Server::start([Reply::json(200, &answer)]).await;
    let model = Anthropic::new("m", ModelConfig { streaming: Some(false), ..server.config() }).unwrap();
    let events = events(&model, ModelRequest::new("x")).await;
    assert!(matches!(&events[0], Ok(ModelEvent::Text { block: 0, delta }) if delta == "hello"));
    assert_eq!(output(&events).message.text(), "hello");
    assert_eq!(server.seen()[0].json().get("stream"), None);
}

#[tokio::test]
async fn every_attempt_sends_the_whole_conversation_with_its_content_length() {
    let replies = (0..40).flat_map(|_| [rate_limited(), Reply::sse(anthropic_text("done"))]);
    let server = Server::start(replies).await;
    let (model, mut history) = (server.anthropic(), Messages::new());
    let mut expected = Vec::new();
    for n in 0..40 {
        history.put(Arc::new(Message::user("x".repeat(n * n + 1))));
        let request = ModelRequest::new(history.clone());
        history.put(Arc::new(Message::Assistant(model.invoke(request.clone()).await.unwrap().message)));
        let body = server.anthropic().request_body(&request).unwrap();
        expected.extend([body.clone(), body]);
    }
    let seen = server.seen();
    assert!(seen.iter().all(|request| request.head.to_lowercase().contains("content-length: ")));
    assert!(seen.iter().map(|request| &request.body).eq(&expected));
}

#[tokio::test]
async fn chat_completions_go_to_their_path_with_a_bearer_key() {
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]});
    let stream = || Reply::sse(sse(std::slice::from_ref(&chunk)) + "data: [DONE]\n\n");
    let server = Server::start([stream(), stream()]).await;
    assert_eq!(server.chat("groq").invoke(ModelRequest::new("x")).await.unwrap().message.text(), "hi");
    assert_eq!(server.chat("azure-chat").invoke(ModelRequest::new("x")).await.unwrap().message.text(), "hi");
    let heads: Vec<String> = server.seen().iter().map(|request| request.head.to_lowercase()).collect();
    assert!(
        heads[0].starts_with("post /chat/completions ") && heads[0].contains("authorization: bearer sk-very-secret")
    );
    assert!(heads[1].contains("api-key: sk-very-secret") && !heads[1].contains("bearer"));
}

#[tokio::test]
async fn a_web_page_instead_of_an_answer_means_a_wrong_url_and_is_not_retried() {
    let page = || Reply::stream("text/html; charset=utf-8", "<!doctype html><title>Welcome</title>");
    let words = || Reply::stream("text/plain", "It works.");
    let bare = || Reply::default().status(200).body("\n<html></html>");
    for (reply, what) in [(page(), "a web page"), (words(), "a text"), (bare(), "a web page")] {
        let server = Server::start([reply.clone(), reply.clone(), reply]).await;
        for model in [&server.chat("custom") as &dyn ChatModel, &server.anthropic()] {
            let error = failure(model).await;
            assert_eq!((error.kind(), error.is_retryable()), ("invalid_request", false), "{error}");
            let text = error.to_string();
            assert!(text.contains(&format!("{}/", server.url)) && text.contains(what), "{text}");
        }
        assert_eq!(server.seen().len(), 2);
        let text = failure(&server.chat("custom")).await.to_string();
        assert!(text.contains("often end with `/v1`"), "{text}");
    }
    // Events with the content type `text/plain` are parsed as usual.
    let server = Server::start([Reply::stream("text/plain", anthropic_text("ok"))]).await;
    assert_eq!(server.anthropic().invoke(ModelRequest::new("x")).await.unwrap().message.text(), "ok");
}
