//! Bedrock: signed requests, event stream frames, blocks sent back; and the Messages API on Bedrock and Vertex.

use std::sync::Arc;

use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message as Event};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use deepagents_core::message::{
    AssistantMessage, Block, Media, MediaKind, MediaSource, Message, Messages, UserMessage,
};
use deepagents_core::model::{
    CacheTtl, ChatModel, ModelEvent, ModelRequest, OutputSchema, StopReason, SystemBlock, ToolSpec,
};
use deepagents_models::{Anthropic, Bedrock, Credentials, ModelConfig, RetryPolicy};
use serde_json::{Value, json};

use crate::server::{Reply, Seen, Server, anthropic_stream, events, output, retries};

const NOVA: &str = "amazon.nova-lite-v1:0";

fn frame(kind: &str, name: &str, payload: &Value) -> Vec<u8> {
    let headers = [(":message-type", kind), (if kind == "event" { ":event-type" } else { ":exception-type" }, name)];
    let event = headers.iter().fold(Event::new(payload.to_string()), |event, (name, value)| {
        event.add_header(Header::new((*name).to_owned(), HeaderValue::String((*value).to_owned().into())))
    });
    let mut bytes = Vec::new();
    write_message_to(&event, &mut bytes).unwrap();
    bytes
}

pub(crate) fn stream(events: &[(&str, Value)]) -> Reply {
    let bytes: Vec<u8> = events.iter().flat_map(|(name, payload)| frame("event", name, payload)).collect();
    Reply::stream("application/vnd.amazon.eventstream", bytes)
}

pub(crate) fn delta(index: u64, delta: &Value) -> (&'static str, Value) {
    ("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta, "p": "abc"}))
}

pub(crate) fn config(server: &Server) -> ModelConfig {
    let keys = Credentials::aws("AKIDEXAMPLE", "wJalrXUtnFEMI", Some("session".into()));
    ModelConfig { api_key: Some(keys), ..server.config() }
}

fn answer() -> Vec<(&'static str, Value)> {
    vec![
        ("messageStart", json!({"role": "assistant"})),
        delta(0, &json!({"reasoningContent": {"text": "hm"}})),
        delta(0, &json!({"reasoningContent": {"signature": "SIG"}})),
        ("contentBlockStop", json!({"contentBlockIndex": 0})),
        delta(1, &json!({"text": "I "})),
        delta(1, &json!({"text": "look"})),
        ("contentBlockStart", json!({"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t1", "name": "f"}}})),
        delta(2, &json!({"toolUse": {"input": "{\"a\":"}})),
        delta(2, &json!({"toolUse": {"input": "1}"}})),
        ("messageStop", json!({"stopReason": "tool_use"})),
        (
            "metadata",
            json!({"usage": {"inputTokens": 10, "cacheReadInputTokens": 5, "outputTokens": 7,
            "cacheWriteInputTokens": 3, "cacheDetails": [{"ttl": "1h", "inputTokens": 2}, {"ttl": "5m", "inputTokens": 1}]}}),
        ),
    ]
}

#[tokio::test]
async fn a_streamed_answer_is_read_and_sent_back_block_by_block() {
    let server = Server::start([stream(&answer()), stream(&answer())]).await;
    let model = Bedrock::new(NOVA, config(&server)).unwrap();
    let told = events(&model, ModelRequest::new("x")).await;
    assert!(told.iter().any(|event| matches!(event, Ok(ModelEvent::ToolCall { block: 2, .. }))));
    let answer = output(&told);
    let usage = answer.usage;
    assert_eq!((answer.stop, usage.input, usage.cache_read), (StopReason::ToolCalls, 18, 5));
    assert_eq!((usage.cache_write, usage.cache_write_hour), (3, 2));
    assert_eq!(answer.message.content[2], Block::call("t1", "f", json!({"a": 1})));

    let call = answer.message.tool_calls().next().unwrap().clone();
    let messages = vec![
        Message::user("x"),
        Message::Assistant(answer.message),
        Message::tool(&call, "done"),
        Message::user("and?"),
    ];
    output(&events(&model, ModelRequest::new(messages)).await);
    let seen = server.seen();
    assert!(seen[0].head.starts_with("POST /model/amazon.nova-lite-v1%3A0/converse-stream "), "{}", seen[0].head);
    let body = seen[1].json();
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [{"text": "x"}]},
            {"role": "assistant", "content": [
                {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "SIG"}}},
                {"text": "I look"},
                {"toolUse": {"toolUseId": "t1", "name": "f", "input": {"a": 1}}},
            ]},
            {"role": "user", "content": [
                {"toolResult": {"toolUseId": "t1", "content": [{"text": "done"}], "status": "success"}},
                {"text": "and?"},
            ]},
        ])
    );
    assert_eq!(body["toolConfig"]["tools"][0]["toolSpec"]["name"], "f", "calls are refused where no tool is named");
}

#[tokio::test]
async fn impossible_counts_of_cached_tokens_do_not_fail_an_answer() {
    let details = json!([{"ttl": "1h", "inputTokens": u64::MAX}, {"ttl": "1h", "inputTokens": u64::MAX}]);
    let mut events_sent = answer();
    let last = events_sent.len() - 1;
    events_sent[last].1["usage"]["cacheDetails"] = details;
    let server = Server::start([stream(&events_sent)]).await;
    let model = Bedrock::new(NOVA, config(&server)).unwrap();
    assert_eq!(output(&events(&model, ModelRequest::new("x")).await).usage.cache_write_hour, u64::MAX);
}

/// The signature of a received request, computed from its whole body, and the one it carries.
fn signatures(seen: &Seen) -> (String, String) {
    let lines: Vec<(&str, &str)> = seen.head.lines().filter_map(|line| line.split_once(": ")).collect();
    let header = |name: &str| lines.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).unwrap().1;
    let date = header("x-amz-date");
    let at = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", date).unwrap();
    let at = at.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
    let session = Some("session".to_owned());
    let identity = aws_credential_types::Credentials::new("AKIDEXAMPLE", "wJalrXUtnFEMI", session, None, "test").into();
    let params = aws_sigv4::sign::v4::SigningParams::builder()
        .identity(&identity)
        .region("us-east-1")
        .name("bedrock")
        .time(at.into())
        .settings(SigningSettings::default())
        .build()
        .unwrap()
        .into();
    let url = format!("http://{}{}", header("host"), seen.head.split(' ').nth(1).unwrap());
    let given = [("content-type", header("content-type"))];
    let body = SignableBody::Bytes(&seen.body);
    let request = SignableRequest::new("POST", url, given.into_iter(), body).unwrap();
    let (_, anew) = sign(request, &params).unwrap().into_parts();
    (anew, header("authorization").rsplit_once("Signature=").unwrap().1.to_owned())
}

#[tokio::test]
async fn every_request_of_a_conversation_is_signed_over_its_whole_content() {
    const SENT: usize = 40;
    let server = Server::start(vec![stream(&answer()); 2 * SENT]).await;
    let converse = Bedrock::new(NOVA, config(&server)).unwrap();
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let claude = ModelConfig { retry: Some(once), ..config(&server) };
    let claude = Anthropic::on_bedrock("anthropic.claude", claude).unwrap();
    let mut history: Vec<Arc<Message>> = Vec::new();
    for n in 0..SENT {
        let said = format!("{n} {}", "word ".repeat(n * 7 % 50));
        history.push(Arc::new(Message::user(said.clone())));
        history.push(Arc::new(Message::Assistant(AssistantMessage::new(vec![Block::text(said)]))));
        if n % 9 == 8 {
            // Conversations are truncated, changed in the middle, and restarted.
            history.truncate(n);
            let at = history.len() / 2;
            history[at] = Arc::new(Message::clone(&history[at]));
        }
        let last = Arc::new(Message::user("and?"));
        let mut request = ModelRequest::new(history.iter().cloned().chain([last]).collect::<Messages>());
        request.system = vec![SystemBlock::new(if n % 7 == 6 { "Be long." } else { "Be short." })];
        let tool = |n| ToolSpec {
            name: format!("t{n}"),
            description: String::new(),
            schema: Arc::new(json!({"type": "object"})),
        };
        request.tools = (0..n / 5 % 3).map(|n| Arc::new(tool(n))).collect();
        converse.invoke(request.clone()).await.unwrap();
        // The server responds in the format of the other API.
        claude.invoke(request).await.unwrap_err();
    }
    let seen = server.seen();
    assert_eq!(seen.len(), 2 * SENT);
    for (n, request) in seen.iter().enumerate() {
        let (anew, came) = signatures(request);
        assert_eq!(anew, came, "request {n}");
    }
}

#[tokio::test]
async fn requests_are_signed_for_the_addressed_region_and_the_secret_stays_local() {
    let server = Server::start([stream(&answer())]).await;
    let model = Bedrock::new(NOVA, config(&server)).unwrap();
    model.invoke(ModelRequest::new("x")).await.unwrap();
    let head = server.seen()[0].head.to_lowercase();
    assert!(head.contains("authorization: aws4-hmac-sha256 credential=akidexample/"), "{head}");
    assert!(
        head.contains("/us-east-1/bedrock/aws4_request") && head.contains("x-amz-security-token: session"),
        "{head}"
    );
    assert!(!head.contains("wjalrxutnfemi"), "{head}");
    let printed = format!("{model:?} {:?}", config(&server));
    assert!(!printed.contains("wJalr") && !printed.contains("AKID"), "{printed}");
    let no_address = Bedrock::new(NOVA, ModelConfig::default()).unwrap_err().to_string();
    assert!(no_address.contains("bedrock-runtime.us-east-1.amazonaws.com"), "{no_address}");
    let elsewhere = Anthropic::new("m", config(&server)).unwrap_err().to_string();
    assert!(elsewhere.contains("cannot be sent to this provider"), "{elsewhere}");
}

#[tokio::test]
async fn requests_to_every_kind_of_endpoint_are_signed_for_its_region() {
    for host in [
        "bedrock-runtime.eu-central-1.amazonaws.com",
        "bedrock-runtime-fips.eu-central-1.amazonaws.com",
        "vpce-1.bedrock-runtime.eu-central-1.vpce.amazonaws.com",
    ] {
        let server = Server::start([stream(&answer())]).await;
        let address: std::net::SocketAddr = server.url.trim_start_matches("http://").parse().unwrap();
        let client = deepagents_models::http_client().await.unwrap().resolve(host, address).build().unwrap();
        let base_url = Some(format!("http://{host}:{}", address.port()));
        let config = ModelConfig { client: Some(client), base_url, ..config(&server) };
        Bedrock::new(NOVA, config).unwrap().invoke(ModelRequest::new("x")).await.unwrap();
        let head = server.seen()[0].head.clone();
        assert!(head.contains("/eu-central-1/bedrock/aws4_request"), "{host}: {head}");
    }
}

#[tokio::test]
async fn an_exception_in_the_stream_is_retried_depending_on_its_class() {
    let mut bytes = frame("event", "messageStart", &json!({"role": "assistant"}));
    bytes.extend(frame("exception", "throttlingException", &json!({"message": "slow down"})));
    let busy = Reply::stream("application/vnd.amazon.eventstream", bytes);
    let refused = Reply::json(400, &json!({"message": "Input is too long for requested model."}))
        .header("x-amzn-errortype", "ValidationException:http://internal.amazon.com/");
    let server = Server::start([busy, stream(&answer()), refused]).await;
    let model = Bedrock::new(NOVA, config(&server)).unwrap();
    let told = events(&model, ModelRequest::new("x")).await;
    assert_eq!(retries(&told)[0].0, "rate_limited");
    output(&told);
    let error = model.invoke(ModelRequest::new("x")).await.unwrap_err();
    assert_eq!((error.kind(), error.info().code.as_deref()), ("context_length", Some("ValidationException")));
}

#[tokio::test]
async fn a_truncated_or_corrupted_stream_is_never_an_answer() {
    let whole: Vec<u8> = answer().iter().flat_map(|(name, payload)| frame("event", name, payload)).collect();
    let mut damaged = whole.clone();
    damaged[40] ^= 1;
    for bytes in [whole[..whole.len() / 2].to_vec(), damaged] {
        let server =
            Server::start([Reply::stream("application/vnd.amazon.eventstream", bytes), stream(&answer())]).await;
        let told = events(&Bedrock::new(NOVA, config(&server)).unwrap(), ModelRequest::new("x")).await;
        assert_eq!(retries(&told)[0].0, "truncated");
        output(&told);
    }
}

#[test]
fn cache_marks_become_cache_points_and_schemas_are_rejected() {
    let config = ModelConfig {
        base_url: Some("https://bedrock-runtime.eu-west-1.amazonaws.com".into()),
        ..ModelConfig::default()
    };
    let model = Bedrock::new("eu.anthropic.claude-sonnet-4-5-20250929-v1:0", config).unwrap();
    assert!(model.profile().cache_marks);
    let mut request = ModelRequest::new(vec![Message::user("a"), Message::assistant("b"), Message::user("c")]);
    request.system = vec![SystemBlock::new("s").cached(CacheTtl::OneHour)];
    let schema = json!({"type": "object"});
    request.tools = vec![ToolSpec { name: "f".into(), description: "F.".into(), schema: schema.clone().into() }.into()];
    request.cache.tools = Some(CacheTtl::OneHour);
    request.cache.messages = vec![(2, CacheTtl::FiveMinutes)];
    let body: Value = serde_json::from_slice(&model.request_body(&request).unwrap()).unwrap();
    assert_eq!(body["system"], json!([{"text": "s"}, {"cachePoint": {"type": "default", "ttl": "1h"}}]));
    assert_eq!(body["toolConfig"]["tools"][1], json!({"cachePoint": {"type": "default", "ttl": "1h"}}));
    assert_eq!(body["messages"][2]["content"], json!([{"text": "c"}, {"cachePoint": {"type": "default"}}]));
    request.output_schema = Some(OutputSchema { name: "n".into(), schema: schema.into() });
    assert_eq!(model.request_body(&request).unwrap_err().kind(), "invalid_request");
}

#[test]
fn documents_that_converse_takes_are_listed_and_sent_by_their_format() {
    let config = ModelConfig { base_url: Some("http://127.0.0.1:1".into()), ..ModelConfig::default() };
    let model = Bedrock::new(NOVA, config).unwrap();
    let markdown = "text/markdown".to_owned();
    assert!(model.profile().documents.contains(&markdown));
    let source = MediaSource::Base64("QQ==".to_owned());
    let file = Block::Media(Media { kind: MediaKind::File, mime: markdown, source, name: Some("a.md".to_owned()) });
    let content = vec![Block::text("Read it."), file];
    let mut request = ModelRequest::new("");
    request.messages = [Message::User(UserMessage { content, ..UserMessage::default() })].into_iter().collect();
    let body: Value = serde_json::from_slice(&model.request_body(&request).unwrap()).unwrap();
    let document = json!({"document": {"format": "md", "name": "a md", "source": {"bytes": "QQ=="}}});
    assert_eq!(body["messages"][0]["content"][1], document);
}

#[tokio::test]
async fn the_messages_api_works_on_bedrock_and_on_vertex() {
    let text = json!({"type": "text", "text": ""});
    let told = anthropic_stream(&[(text, vec![json!({"type": "text_delta", "text": "hi"})])], "end_turn");
    let chunk = |event: &Value| json!({"bytes": BASE64_STANDARD.encode(event.to_string()), "p": "abc"});
    let chunks: Vec<(&str, Value)> = told.iter().map(|event| ("chunk", chunk(event))).collect();
    let server = Server::start([stream(&chunks), Reply::sse(crate::server::sse(&told))]).await;
    let model = Anthropic::on_bedrock("anthropic.claude-sonnet-4-5-20250929-v1:0", config(&server)).unwrap();
    assert_eq!(model.name(), "bedrock-anthropic:anthropic.claude-sonnet-4-5-20250929-v1:0");
    assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap().message.text(), "hi");
    let api_key = Some(Credentials::token("ya29"));
    let model = Anthropic::on_vertex("claude-sonnet-4-5@20250929", ModelConfig { api_key, ..server.config() }).unwrap();
    assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap().message.text(), "hi");

    let seen = server.seen();
    let (bedrock, vertex) = (seen[0].json(), seen[1].json());
    let path = "POST /model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream ";
    assert!(seen[0].head.starts_with(path) && seen[0].head.contains("AWS4-HMAC-SHA256"), "{}", seen[0].head);
    assert_eq!(bedrock["anthropic_version"], "bedrock-2023-05-31");
    assert!(bedrock.get("model").is_none() && bedrock.get("stream").is_none());
    let path = "POST /publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict ";
    assert!(seen[1].head.starts_with(path) && seen[1].head.contains("authorization: Bearer ya29"), "{}", seen[1].head);
    assert_eq!((&vertex["anthropic_version"], &vertex["stream"]), (&json!("vertex-2023-10-16"), &json!(true)));
    assert!(vertex.get("model").is_none());
}

/// The response of one model, and what of it is sent back to a model of another name.
async fn sent_back(events: &[(&str, Value)], from: &str, to: &str) -> (Vec<Block>, Value) {
    let server = Server::start([stream(events)]).await;
    let answer = Bedrock::new(from, config(&server)).unwrap().invoke(ModelRequest::new("x")).await.unwrap().message;
    let request = ModelRequest::new(vec![Message::user("x"), Message::Assistant(answer.clone())]);
    let body = Bedrock::new(to, config(&server)).unwrap().request_body(&request).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    (answer.content, body["messages"][1]["content"].clone())
}

fn told(deltas: Vec<(&'static str, Value)>, stop: &str) -> Vec<(&'static str, Value)> {
    let start = [("messageStart", json!({"role": "assistant"}))];
    let end = [("messageStop", json!({"stopReason": stop})), ("metadata", json!({"usage": {"inputTokens": 1}}))];
    start.into_iter().chain(deltas).chain(end).collect()
}

fn start(index: u64, start: &Value) -> (&'static str, Value) {
    ("contentBlockStart", json!({"contentBlockIndex": index, "start": start}))
}

#[tokio::test]
async fn a_call_typed_as_tool_use_is_a_client_call() {
    let call = json!({"toolUse": {"name": "f", "toolUseId": "t1", "type": "tool_use"}});
    let told = told(vec![start(0, &call), delta(0, &json!({"toolUse": {"input": "{\"a\":1}"}}))], "tool_use");
    let (content, sent) = sent_back(&told, NOVA, NOVA).await;
    assert_eq!(content, [Block::call("t1", "f", json!({"a": 1}))]);
    assert_eq!(sent, json!([{"toolUse": {"toolUseId": "t1", "name": "f", "input": {"a": 1}}}]));

    let made = json!({"toolUse": {"name": "f", "toolUseId": "t1", "type": "tool_use", "input": {"a": 1}}});
    let plain = json!({"output": {"message": {"content": [made]}}, "stopReason": "tool_use"});
    let server = Server::start([]).await;
    let model = Bedrock::new(NOVA, config(&server)).unwrap();
    let decoded = model.decode(200, &reqwest::header::HeaderMap::new(), plain.to_string().as_bytes()).unwrap();
    assert_eq!(decoded.output.message.content, content);
}

#[tokio::test]
async fn provider_side_searches_and_citations_are_kept_and_sent_back() {
    let call = json!({"toolUse": {"toolUseId": "s", "name": "search", "type": "server_tool_use"}});
    let found = json!({"toolResult": {"toolUseId": "s", "type": "search_result", "status": "success"}});
    let citation = json!({"title": "d", "location": {"web": {"url": "u"}}});
    let told = told(
        vec![
            start(0, &call),
            delta(0, &json!({"toolUse": {"input": "{\"q\""}})),
            delta(0, &json!({"toolUse": {"input": ":1}"}})),
            start(1, &found),
            delta(1, &json!({"toolResult": [{"text": "re"}]})),
            delta(1, &json!({"toolResult": [{"text": "s"}, {"json": {"n": 1}}]})),
            delta(2, &json!({"text": "It is "})),
            delta(2, &json!({"text": "so"})),
            delta(2, &json!({"citation": citation})),
            delta(3, &json!({"text": "."})),
        ],
        "end_turn",
    );
    let (content, sent) = sent_back(&told, NOVA, NOVA).await;
    assert_eq!(content.iter().filter_map(Block::as_text).collect::<Vec<_>>(), ["It is so", "."]);
    let want = json!([
        {"toolUse": {"toolUseId": "s", "name": "search", "type": "server_tool_use", "input": {"q": 1}}},
        {"toolResult": {"toolUseId": "s", "type": "search_result", "status": "success",
            "content": [{"text": "res"}, {"json": {"n": 1}}]}},
        {"citationsContent": {"content": [{"text": "It is so"}], "citations": [citation]}},
        {"text": "."},
    ]);
    assert_eq!(sent, want);
}

#[tokio::test]
async fn thoughts_are_sent_back_only_to_their_own_model() {
    let thought = delta(0, &json!({"reasoningContent": {"text": "hm"}}));
    let signature = delta(0, &json!({"reasoningContent": {"signature": "SIG"}}));
    let told = told(vec![thought, signature, delta(1, &json!({"text": "yes"}))], "end_turn");
    const CLAUDE: &str = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0";
    for same in [CLAUDE, "anthropic.claude-sonnet-4-5-20250929-v1:0", "us.anthropic.claude-sonnet-4-5"] {
        let (_, sent) = sent_back(&told, CLAUDE, same).await;
        assert_eq!(sent[0]["reasoningContent"]["reasoningText"]["signature"], "SIG", "{same}");
    }
    for other in ["anthropic.claude-haiku-4-5-20251001-v1:0", NOVA] {
        assert_eq!(sent_back(&told, CLAUDE, other).await.1, json!([{"text": "yes"}]), "{other}");
    }
}

#[tokio::test]
async fn invalid_calls_keep_their_extra_fields_and_an_answer_may_be_empty() {
    let server = Server::start([]).await;
    let model = Bedrock::new(NOVA, config(&server)).unwrap();
    let decode = |answer: Value| {
        model.decode(200, &reqwest::header::HeaderMap::new(), answer.to_string().as_bytes()).unwrap().output
    };
    let made = json!({"toolUse": {"name": "f", "toolUseId": "t1", "input": [1], "more": "m"}});
    let said = decode(json!({"output": {"message": {"content": [made]}}, "stopReason": "tool_use"})).message;
    assert!(matches!(&said.content[0], Block::InvalidToolCall(call) if call.raw == "[1]"));
    let request = ModelRequest::new(vec![Message::user("x"), Message::Assistant(said)]);
    let body: Value = serde_json::from_slice(&model.request_body(&request).unwrap()).unwrap();
    let want = json!([{"toolUse": {"name": "f", "toolUseId": "t1", "input": {}, "more": "m"}}]);
    assert_eq!(body["messages"][1]["content"], want);

    for output in [json!({"message": null}), json!({"message": {"content": null}}), Value::Null] {
        let said = decode(json!({"output": output, "stopReason": "guardrail_intervened"}));
        assert_eq!((said.stop, said.message.content.len()), (StopReason::Refusal, 0));
    }
}
