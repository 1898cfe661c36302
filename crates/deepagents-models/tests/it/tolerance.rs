//! Lenient parsing of nearly correct responses.

use deepagents_core::message::{Block, Message};
use deepagents_core::model::{ModelError, ModelOutput, ModelRequest};
use deepagents_models::{Anthropic, Bedrock, Dialect, Gemini, ModelConfig, OpenAiChat};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::server::{Reply, Server, events, output, retries, sse};

fn model(service: &str) -> OpenAiChat {
    let config = ModelConfig { base_url: Some("http://localhost/v1".into()), ..ModelConfig::default() };
    OpenAiChat::new(Dialect::named(service).unwrap(), "m", config).unwrap()
}

fn read(service: &str, body: &str) -> Result<ModelOutput, ModelError> {
    model(service).decode(200, &HeaderMap::new(), body.as_bytes()).map(|decoded| decoded.output)
}

fn delta(delta: &Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn end(word: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": word}]})
}

#[test]
fn lone_surrogates_and_invalid_numbers_do_not_end_an_answer() {
    let [first, second] = ["hi \\ud83d", "\\ude00 yo \\ud83d\\ude00"].map(|text| {
        format!("data: {}\n\n", delta(&json!({"content": "X"})).to_string().replace("\"X\"", &format!("\"{text}\"")))
    });
    let body = first + &second + &sse(&[end("stop")]);
    assert_eq!(read("vllm", &body).unwrap().message.text(), "hi \u{fffd}\u{fffd} yo 😀");
    let body = r#"{"choices": [{"message": {"content": "NaN is \"NaN\""}, "logprobs": {"a": [NaN, -Infinity]}, "finish_reason": "stop"}]}"#;
    assert_eq!(read("vllm", body).unwrap().message.text(), "NaN is \"NaN\"");
}

#[test]
fn a_raw_line_break_in_arguments_is_accepted_and_sent_back_as_json() {
    let raw = "{\"content\":\"a\nb\"}";
    let call = json!({"id": "c", "function": {"name": "write", "arguments": raw}});
    let body = json!({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    let output = read("vllm", &body.to_string()).unwrap();
    assert_eq!(output.message.tool_calls().next().unwrap().args, json!({"content": "a\nb"}));
    let request = ModelRequest::new(vec![Message::user("x"), Message::Assistant(output.message)]);
    let sent: Value = serde_json::from_slice(&model("vllm").request_body(&request).unwrap()).unwrap();
    let arguments = sent["messages"][1]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(arguments).unwrap(), json!({"content": "a\nb"}));
}

#[test]
fn calls_are_assembled_despite_changing_ids_or_string_indexes() {
    let piece = |call: Value| delta(&json!({"tool_calls": [call]}));
    let told = [
        piece(json!({"index": "0", "id": "a", "function": {"name": "f", "arguments": "{\"x\":"}})),
        piece(json!({"index": "0", "id": "b", "function": {"arguments": "1}"}})),
        piece(json!({"index": null, "id": null, "function": null})),
        piece(json!({"index": "1", "id": "c", "function": {"name": "g", "arguments": "{}"}})),
        end("tool_calls"),
    ];
    let want = [Block::call("a", "f", json!({"x": 1})), Block::call("c", "g", json!({}))];
    assert_eq!(read("vllm", &sse(&told)).unwrap().message.content, want);
}

#[test]
fn token_usage_is_found_inside_a_choice() {
    let usage = json!({"prompt_tokens": 9.0, "completion_tokens": 2.0, "cached_tokens": 4});
    let body = json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop", "usage": usage}]});
    let read = read("moonshot", &body.to_string()).unwrap().usage;
    assert_eq!((read.input, read.output, read.cache_read), (9, 2, 4));
}

#[test]
fn sources_beside_an_answer_are_kept_but_not_sent_back() {
    let told = [
        json!({"citations": ["u"], "search_results": [], "choices": [{"index": 0, "delta": {"content": "so"}}]}),
        json!({"citations": ["u", "v"], "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
    ];
    for service in ["perplexity", "openrouter"] {
        let message = read(service, &sse(&told)).unwrap().message;
        let native = message.content[1].native().unwrap().value();
        assert_eq!(*native, json!({"citations": ["u", "v"]}));
        let request = ModelRequest::new(vec![Message::user("x"), Message::Assistant(message)]);
        let sent: Value = serde_json::from_slice(&model(service).request_body(&request).unwrap()).unwrap();
        assert_eq!(sent["messages"][1], json!({"role": "assistant", "content": "so"}));
    }
}

#[tokio::test]
async fn a_truncated_unstreamed_answer_is_retried() {
    let whole = json!({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]});
    let json = || Reply::json(200, &whole);
    let server =
        Server::start([json().body("{\"choices\": [{\"message\": {\"content\": \"ha"), json().body(""), json()]).await;
    let config = ModelConfig { streaming: Some(false), ..server.config() };
    let model = OpenAiChat::new(Dialect::named("vllm").unwrap(), "m", config).unwrap();
    let told = events(&model, ModelRequest::new("x")).await;
    assert_eq!(retries(&told).iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), ["truncated", "truncated"]);
    assert_eq!(output(&told).message.text(), "ok");
}

#[test]
fn empty_error_fields_are_ignored_and_real_errors_keep_their_message() {
    for nothing in [json!({}), json!(""), json!(false), json!(null)] {
        let mut body = json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]});
        body["error"] = nothing;
        assert_eq!(read("vllm", &body.to_string()).unwrap().message.text(), "x");
    }
    let line = "error: {\"code\":500,\"message\":\"Compute error.\",\"type\":\"server_error\"}\n\n";
    let error = read("llamacpp", &(sse(&[delta(&json!({"content": "x"}))]) + line)).unwrap_err();
    assert!(error.kind() == "overloaded" && error.to_string().contains("Compute error."), "{error}");

    let gemini = Gemini::new("g", ModelConfig::default()).unwrap();
    let list = json!([{"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}]);
    let error = gemini.decode(200, &HeaderMap::new(), sse(&[list]).as_bytes()).unwrap_err();
    assert_eq!(error.kind(), "rate_limited");

    let anthropic = Anthropic::new("claude-sonnet-4-5", ModelConfig::default()).unwrap();
    let mut told = crate::server::anthropic_stream(&[], "end_turn");
    told.insert(1, json!({"type": "progress", "error": null}));
    assert!(anthropic.decode(200, &HeaderMap::new(), sse(&told).as_bytes()).is_ok());
}

#[tokio::test]
async fn keys_are_redacted_in_errors_but_short_ones_not_inside_words() {
    let refused = || {
        let words = "context exceeded: x, hdr-secret-1234567890, sk-very-secret and sk-very-secrets";
        Reply::json(400, &json!({"error": {"message": words}}))
    };
    let server = Server::start([refused()]).await;
    let headers =
        vec![("X-Api-Key".to_owned(), "hdr-secret-1234567890".to_owned()), ("x-title".into(), "exceeded".into())];
    let config = ModelConfig { headers, api_key: Some("x".into()), ..server.config() };
    let model = OpenAiChat::new(Dialect::custom(), "m", config).unwrap();
    let told = events(&model, ModelRequest::new("x")).await;
    let error = told.last().unwrap().as_ref().unwrap_err().to_string();
    assert!(error.contains("context exceeded: [key], [key], sk-very-secret and"), "{error}");
}

#[tokio::test]
async fn values_of_headers_are_redacted_in_errors_unless_they_are_known_to_be_public() {
    let words = "no prod for HDR-SECRET9, of-a-gateway or context-1m-2025-08-07";
    let server = Server::start([Reply::json(400, &json!({"error": {"message": words}}))]).await;
    let headers = [
        ("X-Custom", "HDR-SECRET9"),
        ("X-Gateway", "Basic of-a-gateway"),
        ("X-Stage", "prod"),
        ("Anthropic-Beta", "context-1m-2025-08-07"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let config = ModelConfig { headers, api_key: Some("sk-x".into()), ..server.config() };
    let model = OpenAiChat::new(Dialect::custom(), "m", config).unwrap();
    let told = events(&model, ModelRequest::new("x")).await;
    let error = told.last().unwrap().as_ref().unwrap_err().to_string();
    assert!(error.contains("no prod for [key], [key] or context-1m-2025-08-07"), "{error}");
}

#[tokio::test]
async fn an_unusable_proxy_is_named_in_the_error() {
    let failure = async |proxy: &str| {
        let config = ModelConfig {
            base_url: Some("http://models.invalid/v1".into()),
            proxy: Some(proxy.into()),
            ..ModelConfig::default()
        };
        let retry = Some(deepagents_models::RetryPolicy { max_attempts: 1, ..Default::default() });
        let model = OpenAiChat::new(Dialect::custom(), "m", ModelConfig { retry, ..config }).unwrap();
        let told = events(&model, ModelRequest::new("x")).await;
        told.into_iter().last().unwrap().unwrap_err()
    };
    let away = failure("http://user:hidden@127.0.0.1:1").await.to_string();
    assert!(away.contains("through the proxy http://127.0.0.1:1") && !away.contains("hidden"), "{away}");
    let odd = failure("socks5://127.0.0.1:1").await;
    assert!(odd.kind() == "invalid_request" && odd.to_string().contains("socks5"), "{odd}");
}

#[test]
fn redacted_converse_reasoning_is_joined_as_bytes() {
    // "hello" and "world!", each encoded as base64 separately.
    use aws_smithy_eventstream::frame::write_message_to;
    use aws_smithy_types::event_stream::{Header, HeaderValue, Message as Event};
    let frame = |name: &'static str, payload: &Value| {
        let header = |name: &'static str, value: &str| Header::new(name, HeaderValue::String(value.to_owned().into()));
        let event = Event::new(payload.to_string());
        let event = event.add_header(header(":message-type", "event")).add_header(header(":event-type", name));
        let mut bytes = Vec::new();
        write_message_to(&event, &mut bytes).unwrap();
        bytes
    };
    let hidden = |data: &str| {
        frame(
            "contentBlockDelta",
            &json!({"contentBlockIndex": 0, "delta": {"reasoningContent": {"redactedContent": data}}}),
        )
    };
    let text = frame("contentBlockDelta", &json!({"contentBlockIndex": 1, "delta": {"text": "x"}}));
    let body = [
        frame("messageStart", &json!({"role": "assistant"})),
        hidden("aGVsbG8="),
        hidden("d29ybGQh"),
        text,
        frame("messageStop", &json!({"stopReason": "end_turn"})),
    ];
    let base_url = Some("https://bedrock-runtime.us-east-1.amazonaws.com".to_owned());
    let model = Bedrock::new("amazon.nova-lite-v1:0", ModelConfig { base_url, ..ModelConfig::default() }).unwrap();
    let message = model.decode(200, &HeaderMap::new(), &body.concat()).unwrap().output.message;
    let want = json!({"reasoningContent": {"redactedContent": "aGVsbG93b3JsZCE="}});
    assert_eq!(*message.content[0].native().unwrap().value(), want);
}
