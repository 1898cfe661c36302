//! Google's Interactions API: steps sent back one by one.

use deepagents_core::message::{Block, Message};
use deepagents_core::model::{ModelOutput, ModelRequest, StopReason};
use deepagents_models::{Interactions, ModelConfig};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::server::sse;

fn model() -> Interactions {
    Interactions::new("gemini-3-flash-preview", ModelConfig::default()).unwrap()
}

fn decode(body: &str) -> ModelOutput {
    model().decode(200, &HeaderMap::new(), body.as_bytes()).unwrap().output
}

fn steps() -> [Value; 3] {
    [
        json!({"type": "thought", "signature": "S", "summary": [{"text": "hm", "type": "text"}]}),
        json!({"type": "model_output", "content": [{"text": "I look", "type": "text"}]}),
        json!({"arguments": {"a": 1}, "id": "c1", "name": "f", "type": "function_call"}),
    ]
}

fn end(status: &str) -> Value {
    json!({"id": "v1", "status": status, "usage": {"total_input_tokens": 8, "total_output_tokens": 3,
        "total_thought_tokens": 4, "total_cached_tokens": 2}})
}

fn streamed() -> String {
    let delta = |index: u64, delta: Value| json!({"event_type": "step.delta", "index": index, "delta": delta});
    let start = |index: u64, step: Value| json!({"event_type": "step.start", "index": index, "step": step});
    sse(&[
        start(0, json!({"type": "thought"})),
        delta(0, json!({"type": "thought_signature", "signature": "S"})),
        delta(0, json!({"type": "thought_summary", "content": {"type": "text", "text": "hm"}})),
        start(1, json!({"type": "model_output"})),
        delta(1, json!({"type": "text", "text": "I "})),
        delta(1, json!({"type": "text", "text": "look"})),
        start(2, json!({"type": "function_call", "id": "c1", "name": "f", "arguments": {}})),
        delta(2, json!({"type": "arguments_delta", "arguments": "{\"a\":1}"})),
        json!({"event_type": "interaction.completed", "interaction": end("requires_action")}),
    ])
}

#[test]
fn steps_are_sent_back_verbatim_whether_streamed_or_not() {
    let mut whole = end("requires_action");
    whole["steps"] = json!(steps());
    let output = decode(&streamed());
    assert_eq!(output, decode(&whole.to_string()));
    assert_eq!((output.stop.clone(), output.usage.input, output.usage.output), (StopReason::ToolCalls, 8, 7));
    let call = output.message.tool_calls().next().unwrap().clone();
    let request =
        ModelRequest::new(vec![Message::user("x"), Message::Assistant(output.message), Message::tool(&call, "y")]);
    let body: Value = serde_json::from_slice(&model().request_body(&request).unwrap()).unwrap();
    assert_eq!((&body["store"], &body["stream"]), (&json!(false), &json!(true)));
    let input = body["input"].as_array().unwrap();
    assert_eq!(input[0], json!({"type": "user_input", "content": [{"type": "text", "text": "x"}]}));
    assert_eq!(input[1..4], steps());
    let result = json!({"type": "function_result", "call_id": "c1", "name": "f", "result": "y"});
    assert_eq!(input[4], json!({"type": "user_input", "content": [result]}));
}

#[test]
fn truncated_and_failed_answers_are_typed() {
    let error = |body: &str| model().decode(200, &HeaderMap::new(), body.as_bytes()).unwrap_err().kind();
    assert_eq!(
        error(&sse(&[json!({"event_type": "step.start", "index": 0, "step": {"type": "thought"}})])),
        "truncated"
    );
    assert_eq!(error(&end("in_progress").to_string()), "protocol");
    let failed = json!({"event_type": "error", "error": {"code": "rate_limit_exceeded", "message": "slow"}});
    assert_eq!(error(&sse(&[failed])), "rate_limited");
    let cut = sse(&[
        json!({"event_type": "step.start", "index": 0, "step": {"type": "function_call", "id": "c", "name": "f"}}),
        json!({"event_type": "step.delta", "index": 0, "delta": {"type": "arguments_delta", "arguments": "{\"a"}}),
        json!({"event_type": "interaction.completed", "interaction": end("incomplete")}),
    ]);
    let output = decode(&cut);
    assert_eq!(output.stop, StopReason::MaxTokens);
    assert!(matches!(&output.message.content[0], Block::InvalidToolCall(call) if call.raw == "{\"a"));
}

#[test]
fn a_streamed_image_is_part_of_its_step() {
    let delta = |delta: Value| json!({"event_type": "step.delta", "index": 0, "delta": delta});
    let picture = json!({"type": "image", "mime_type": "image/png", "data": "AAAA"});
    let output = decode(&sse(&[
        json!({"event_type": "step.start", "index": 0, "step": {"type": "model_output"}}),
        delta(json!({"type": "text", "text": "hi"})),
        delta(picture.clone()),
        json!({"event_type": "interaction.completed", "interaction": end("completed")}),
    ]));
    let want = json!({"type": "model_output", "content": [{"text": "hi", "type": "text"}, picture]});
    assert_eq!(output.message.content[0].native().unwrap().value(), &want);
}
