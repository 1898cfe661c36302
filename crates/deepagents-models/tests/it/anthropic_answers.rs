//! Messages API responses, sent back unchanged.

use deepagents_core::message::{AssistantMessage, Block, Message, Usage};
use deepagents_core::model::{ChatModel, ModelEvent, ModelRequest, StopReason};
use deepagents_models::{Anthropic, ModelConfig};
use serde_json::{Value, json};

use crate::server::{Reply, Server, anthropic_stream, events, output, sse};

/// An interleaved turn in the model's order.
fn interleaved() -> Vec<Value> {
    vec![
        json!({"type": "thinking", "thinking": "one", "signature": "SIG-1"}),
        json!({"type": "text", "text": "Let me look."}),
        json!({"type": "redacted_thinking", "data": "XYZ"}),
        json!({"type": "thinking", "thinking": "two", "signature": "SIG-2"}),
        json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "it"}}),
        json!({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "q"}}),
        json!({"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "web_search_result"}]}),
        json!({"type": "thinking", "thinking": "", "signature": "SIG-3"}),
        json!({"type": "text", "text": "Cited.", "citations": [{"type": "char_location", "cited_text": "c"}]}),
        json!({"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}, "caller": {"type": "direct"}}),
    ]
}

fn whole(content: &[Value], stop: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "content": content, "stop_reason": stop,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 20}})
}

/// The same turn as deltas.
fn streamed() -> Vec<(Value, Vec<Value>)> {
    let json_deltas = |pieces: &[&str]| -> Vec<Value> {
        pieces.iter().map(|p| json!({"type": "input_json_delta", "partial_json": p})).collect()
    };
    let mut blocks: Vec<(Value, Vec<Value>)> = interleaved().into_iter().map(|block| (block, vec![])).collect();
    blocks[0] = (
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        vec![
            json!({"type": "thinking_delta", "thinking": "on"}),
            json!({"type": "thinking_delta", "thinking": "e"}),
            json!({"type": "signature_delta", "signature": "SIG-1"}),
        ],
    );
    blocks[1] = (
        json!({"type": "text", "text": ""}),
        vec![json!({"type": "text_delta", "text": "Let me "}), json!({"type": "text_delta", "text": "look."})],
    );
    blocks[4].0["input"] = json!({});
    blocks[4].1 = json_deltas(&["", "{\"at\":", " \"it\"}"]);
    blocks[5].0["input"] = json!({});
    blocks[5].1 = json_deltas(&["", "{\"query\": \"q\"}"]);
    let citation = json!({"type": "char_location", "cited_text": "c"});
    blocks[8] = (
        json!({"type": "text", "text": "", "citations": []}),
        vec![json!({"type": "citations_delta", "citation": citation}), json!({"type": "text_delta", "text": "Cited."})],
    );
    blocks[9].1 = json_deltas(&[""]);
    blocks
}

fn next_request(said: AssistantMessage) -> ModelRequest {
    ModelRequest::new(vec![Message::user("go"), Message::Assistant(said)])
}

#[tokio::test]
async fn an_interleaved_turn_is_sent_back_in_order_whether_or_not_it_was_streamed() {
    let stream = sse(&anthropic_stream(&streamed(), "tool_use"));
    let server = Server::start([Reply::sse(stream), Reply::json(200, &whole(&interleaved(), "tool_use"))]).await;
    let model = server.anthropic();
    for _ in 0..2 {
        let output = output(&events(&model, ModelRequest::new("go")).await);
        assert_eq!(output.stop, StopReason::ToolCalls);
        let usage = Usage { input: 17, output: 20, cache_read: 5, cache_write: 2, ..Usage::default() };
        assert_eq!((output.usage, output.message.usage), (usage, Some(usage)));
        // A stored message is read back unchanged.
        let stored: AssistantMessage = serde_json::from_str(&serde_json::to_string(&output.message).unwrap()).unwrap();
        assert_eq!(stored, output.message);
        let body: Value = serde_json::from_slice(&model.request_body(&next_request(stored)).unwrap()).unwrap();
        assert_eq!(body["messages"][1]["content"], Value::Array(interleaved()));
    }
}

#[tokio::test]
async fn deltas_carry_the_position_of_their_block() {
    let server = Server::start([Reply::sse(sse(&anthropic_stream(&streamed(), "tool_use")))]).await;
    let (mut texts, mut thoughts, mut args) = (String::new(), String::new(), String::new());
    for event in events(&server.anthropic(), ModelRequest::new("go")).await {
        match event.unwrap() {
            ModelEvent::Text { block: 1, delta } => texts.push_str(&delta),
            ModelEvent::Reasoning { block: 0, delta } => thoughts.push_str(&delta),
            ModelEvent::ToolArgs { block: 4, delta } => args.push_str(&delta),
            ModelEvent::ToolCall { block, id, .. } => assert!(matches!((block, &*id), (4, "toolu_1") | (9, "toolu_2"))),
            _ => {}
        }
    }
    assert_eq!((&*texts, &*thoughts, &*args), ("Let me look.", "one", "{\"at\": \"it\"}"));
}

#[tokio::test]
async fn plain_text_and_plain_calls_store_no_native_copy() {
    let server = Server::start([Reply::json(200, &whole(&interleaved(), "tool_use"))]).await;
    let message = output(&events(&server.anthropic(), ModelRequest::new("go")).await).message;
    let kept: Vec<bool> = message.content.iter().map(|block| block.native().is_some()).collect();
    assert_eq!(kept, [true, false, true, true, false, true, true, true, true, true]);
}

#[tokio::test]
async fn reasoning_and_items_of_other_providers_are_left_out() {
    let server = Server::start([Reply::json(200, &whole(&interleaved(), "tool_use"))]).await;
    let model = server.anthropic();
    let mut message = output(&events(&model, ModelRequest::new("go")).await).message;
    message.origin.as_mut().unwrap().provider = "elsewhere".into();
    let body: Value = serde_json::from_slice(&model.request_body(&next_request(message)).unwrap()).unwrap();
    let kinds: Vec<&str> =
        body["messages"][1]["content"].as_array().unwrap().iter().map(|b| b["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "tool_use", "text", "tool_use"]);
    assert_eq!(body["messages"][1]["content"][2], json!({"type": "text", "text": "Cited."}));
}

async fn content_of(stream: String) -> (Vec<Block>, StopReason) {
    let server = Server::start([Reply::sse(stream)]).await;
    let output = output(&events(&server.anthropic(), ModelRequest::new("go")).await);
    (output.message.content, output.stop)
}

#[tokio::test]
async fn unknown_events_are_ignored_and_unknown_blocks_are_kept() {
    let new = json!({"type": "hologram", "beam": "a"});
    let mut list = anthropic_stream(&[(new, vec![json!({"type": "beam_delta", "beam": "b"})])], "end_turn");
    list.insert(1, json!({"type": "weather_report", "mood": "sunny"}));
    let (content, _) = content_of(sse(&list) + "data: [DONE]\n\n").await;
    assert_eq!(content[0].native().unwrap().value(), &json!({"type": "hologram", "beam": "ab"}));
}

#[tokio::test]
async fn arguments_that_are_not_json_become_an_invalid_call() {
    let start = json!({"type": "tool_use", "id": "t", "name": "look", "input": {}});
    let broken = vec![json!({"type": "input_json_delta", "partial_json": "{\"at\": "})];
    let (content, stop) = content_of(sse(&anthropic_stream(&[(start.clone(), broken)], "max_tokens"))).await;
    assert_eq!(stop, StopReason::MaxTokens);
    let Block::InvalidToolCall(call) = &content[0] else { panic!("{content:?}") };
    assert_eq!((&*call.id, &*call.name, &*call.raw), ("t", "look", "{\"at\": "));

    let (content, _) = content_of(sse(&anthropic_stream(&[(start.clone(), vec![])], "max_tokens"))).await;
    let Block::InvalidToolCall(call) = &content[0] else { panic!("{content:?}") };
    assert!(call.error.contains("cut off at the token limit"));

    let (content, _) = content_of(sse(&anthropic_stream(&[(start.clone(), vec![])], "tool_use"))).await;
    assert_eq!(content[0], Block::call("t", "look", json!({})));

    let none = vec![json!({"type": "input_json_delta", "partial_json": "{}"})];
    let (content, _) = content_of(sse(&anthropic_stream(&[(start, none)], "max_tokens"))).await;
    assert_eq!(content[0], Block::call("t", "look", json!({})), "what came whole was not cut");
}

#[tokio::test]
async fn arguments_are_read_from_deltas_when_a_calls_start_has_none() {
    let start = json!({"type": "tool_use", "id": "t", "name": "look"});
    let args = ["{\"a\":", "1}"].map(|text| json!({"type": "input_json_delta", "partial_json": text}));
    let (content, _) = content_of(sse(&anthropic_stream(&[(start, args.to_vec())], "tool_use"))).await;
    assert_eq!(content, [Block::call("t", "look", json!({"a": 1}))]);
}

#[test]
fn a_call_without_input_keeps_its_extra_fields_and_is_sent_back_with_an_empty_input() {
    let model = Anthropic::new("claude-sonnet-4-5", ModelConfig::default()).unwrap();
    for more in [json!({"caller": {"type": "direct"}}), json!({"caller": {"type": "direct"}, "note": 1})] {
        let mut made = json!({"type": "tool_use", "id": "t1", "name": "look"});
        made.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = whole(std::slice::from_ref(&made), "tool_use").to_string();
        let said = model.decode(200, &reqwest::header::HeaderMap::new(), answer.as_bytes()).unwrap().output.message;
        assert!(matches!(&said.content[0], Block::ToolCall(call) if call.args == json!({})), "{said:?}");
        let body: Value = serde_json::from_slice(&model.request_body(&next_request(said)).unwrap()).unwrap();
        made["input"] = json!({});
        assert_eq!(body["messages"][1]["content"], json!([made]));
    }
}

#[tokio::test]
async fn every_stop_reason_is_mapped() {
    let cases = [
        ("end_turn", StopReason::End),
        ("stop_sequence", StopReason::StopSequence),
        ("refusal", StopReason::Refusal),
        ("pause_turn", StopReason::Pause),
        ("model_context_window_exceeded", StopReason::ContextWindow),
        ("bored", StopReason::Other("bored".into())),
    ];
    for (word, reason) in cases {
        let server = Server::start([Reply::json(200, &whole(&[json!({"type": "text", "text": "x"})], word))]).await;
        assert_eq!(output(&events(&server.anthropic(), ModelRequest::new("go")).await).stop, reason);
    }
}

#[test]
fn an_invalid_call_keeps_its_extra_fields_and_an_answer_may_be_empty() {
    let model = Anthropic::new("claude-sonnet-4-5", ModelConfig::default()).unwrap();
    let decode = |answer: Value| {
        model.decode(200, &reqwest::header::HeaderMap::new(), answer.to_string().as_bytes()).unwrap().output
    };
    let caller = json!({"type": "code_execution_20250825", "tool_id": "s1"});
    let made = json!({"type": "tool_use", "id": "t1", "name": "look", "input": [1], "caller": caller});
    let said = decode(whole(&[made], "tool_use")).message;
    assert!(matches!(&said.content[0], Block::InvalidToolCall(call) if call.raw == "[1]"));
    let body: Value = serde_json::from_slice(&model.request_body(&next_request(said)).unwrap()).unwrap();
    let want = json!([{"type": "tool_use", "id": "t1", "name": "look", "input": {}, "caller": caller}]);
    assert_eq!(body["messages"][1]["content"], want);

    let said = decode(json!({"id": "m", "content": null, "stop_reason": "refusal"}));
    assert_eq!((said.stop, said.message.content.len()), (StopReason::Refusal, 0));
}

#[test]
fn odd_events_of_a_stream_say_nothing_and_blocks_may_be_interleaved() {
    let model = Anthropic::new("claude-sonnet-4-5", ModelConfig::default()).unwrap();
    let delta =
        |index: u64, delta: &str| format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#);
    let told = [
        r#"{"type":"ping","delta":"x"}"#.to_owned(),
        r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":3}},"error":null}"#.to_owned(),
        r#"{"type":7}"#.to_owned(),
        "[1]".to_owned(),
        "null".to_owned(),
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#.to_owned(),
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"look","input":{}}}"#.to_owned(),
        r#"{"type":"content_block_start","index":2}"#.to_owned(),
        delta(1, r#"{"type":"input_json_delta","partial_json":"{\"n\":"}"#),
        delta(0, r#"{"type":"text_delta","text":"a\ud83d"}"#),
        delta(9, r#"{"type":"text_delta","text":"lost"}"#),
        delta(1, r#"{"partial_json":"1e5}","type":"input_json_delta"}"#),
        delta(0, r#"{"type":"text_delta","text":null}"#),
        delta(0, r#"{"type":"later_delta","text":"b","later":[1]}"#),
        delta(0, r#"{"type":"later_delta","later":[2]}"#),
        delta(0, "5"),
        r#"{"type":"message_delta","delta":null,"usage":{"output_tokens":4}}"#.to_owned(),
        r#"{"type":"message_delta","delta":{"type":null,"stop_reason":"tool_use"},"usage":{"output_tokens":5,"input_tokens":null}}"#.to_owned(),
        r#"{"type":"message_stop","error":false}"#.to_owned(),
    ];
    let body: String = told.iter().map(|data| format!("data: {data}\n\n")).collect();
    let decoded = model.decode(200, &reqwest::header::HeaderMap::new(), body.as_bytes()).unwrap();
    let message = decoded.output.message;
    assert_eq!((message.text().as_str(), message.id.as_str()), ("a\u{fffd}b", "m"));
    let Block::Text(text) = &message.content[0] else { panic!("{message:?}") };
    assert_eq!(text.native.as_ref().unwrap().value()["later"], json!([1, 2]));
    assert_eq!(message.tool_calls().next().unwrap().args, json!({"n": 100_000.0}));
    assert_eq!((decoded.output.usage.input, decoded.output.usage.output), (3, 5));
    assert_eq!((message.content.len(), decoded.output.stop), (2, StopReason::ToolCalls));

    for (data, kind) in [
        (r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#, "overloaded"),
        (r#"{"type":"error"}"#, "overloaded"),
        (r#"{"type":7,"error":{"type":"rate_limit_error","message":"slow down"}}"#, "rate_limited"),
        (r#"{"type":"message_start","error":"no"}"#, "overloaded"),
        ("{\"type\":", "protocol"),
    ] {
        let body = format!("data: {data}\n\ndata: {{}}\n\n");
        let error = model.decode(200, &reqwest::header::HeaderMap::new(), body.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), kind, "{data}");
    }
}

#[tokio::test]
async fn tokens_written_to_the_cache_for_an_hour_are_counted_apart() {
    let mut answer = whole(&interleaved(), "tool_use");
    answer["usage"]["cache_creation_input_tokens"] = json!(30);
    answer["usage"]["cache_creation"] = json!({"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20});
    let mut streamed = anthropic_stream(&streamed(), "tool_use");
    streamed[0]["message"]["usage"] = answer["usage"].clone();
    let server = Server::start([Reply::sse(sse(&streamed)), Reply::json(200, &answer)]).await;
    for _ in 0..2 {
        let usage = server.anthropic().invoke(ModelRequest::new("go")).await.unwrap().usage;
        assert_eq!((usage.cache_write, usage.cache_write_hour), (30, 20));
    }
}
