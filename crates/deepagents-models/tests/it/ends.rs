//! How responses end: a truncated response is an error, whatever the service calls it.

use deepagents_core::message::Block;
use deepagents_core::model::{ModelError, ModelOutput, StopReason};
use deepagents_models::{Bedrock, Dialect, Gemini, ModelConfig, OpenAiChat, OpenAiResponses};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::server::sse;

fn config() -> ModelConfig {
    ModelConfig { base_url: Some("http://localhost/v1".into()), ..ModelConfig::default() }
}

fn chat(body: &str) -> Result<ModelOutput, ModelError> {
    let model = OpenAiChat::new(Dialect::named("groq").unwrap(), "m", config()).unwrap();
    model.decode(200, &HeaderMap::new(), body.as_bytes()).map(|decoded| decoded.output)
}

fn ended(word: &str) -> String {
    json!({"choices": [{"message": {"content": "half"}, "finish_reason": word}]}).to_string()
}

fn responses(body: &str) -> ModelOutput {
    let model = OpenAiResponses::new("openai", "gpt-5", config()).unwrap();
    model.decode(200, &HeaderMap::new(), body.as_bytes()).unwrap().output
}

#[test]
fn a_response_aborted_by_the_service_is_a_retryable_error() {
    for word in ["error", "network_error", "insufficient_system_resource", "abort", "ERROR"] {
        let error = chat(&ended(word)).unwrap_err();
        assert_eq!(error.kind(), "overloaded", "{word}");
        assert!(error.to_string().contains(word), "{error}");
    }
    let piece = json!({"choices": [{"index": 0, "delta": {"content": "half"}}]});
    let groq = json!({"choices": [], "x_groq": {"error": "over capacity"}});
    let error = chat(&(sse(&[piece, groq]) + "data: [DONE]\n\n")).unwrap_err();
    assert!(error.kind() == "overloaded" && error.to_string().contains("over capacity"), "{error}");

    let part = json!({"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "MALFORMED_RESPONSE"}]});
    let gemini = Gemini::new("g", config()).unwrap();
    assert_eq!(gemini.decode(200, &HeaderMap::new(), part.to_string().as_bytes()).unwrap_err().kind(), "overloaded");
    let bedrock = Bedrock::new(
        "amazon.nova-lite-v1:0",
        ModelConfig { base_url: Some("https://bedrock-runtime.us-east-1.amazonaws.com".into()), ..config() },
    )
    .unwrap();
    for word in ["malformed_model_output", "malformed_tool_use"] {
        let body = json!({"output": {"message": {"content": [{"text": "half"}]}}, "stopReason": word});
        assert_eq!(
            bedrock.decode(200, &HeaderMap::new(), body.to_string().as_bytes()).unwrap_err().kind(),
            "overloaded"
        );
    }
}

#[test]
fn stop_reasons_of_many_services_are_recognised() {
    let cases = [
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("max_output_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::ContextWindow),
        ("sensitive", StopReason::Refusal),
        ("safety", StopReason::Refusal),
        ("eos_token", StopReason::End),
        ("STOP", StopReason::End),
        ("bored", StopReason::Other("bored".into())),
    ];
    for (word, stop) in cases {
        assert_eq!(chat(&ended(word)).unwrap().stop, stop, "{word}");
    }
    let body = json!({"id": "r", "status": "incomplete", "incomplete_details": null, "output": []});
    assert_eq!(responses(&body.to_string()).stop, StopReason::Other("incomplete".into()));
}

fn item(kind: &str, index: u64, item: &Value) -> Value {
    json!({"type": format!("response.output_item.{kind}"), "output_index": index, "item": item})
}

fn call(id: &str, name: &str) -> Value {
    let mut call = json!({"type": "function_call", "call_id": name, "name": name, "arguments": "{\"n\":1}"});
    if !id.is_empty() {
        call["id"] = json!(id);
    }
    call
}

fn end(output: &[&Value]) -> Value {
    json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": output}})
}

fn names(output: &ModelOutput) -> Vec<&str> {
    output.message.tool_calls().map(|call| call.name.as_str()).collect()
}

#[test]
fn calls_with_duplicate_indexes_are_neither_lost_nor_duplicated() {
    for ids in [["x", "y"], ["", ""]] {
        let (a, b) = (call(ids[0], "a"), call(ids[1], "b"));
        let told =
            [item("added", 0, &a), item("added", 0, &b), item("done", 0, &a), item("done", 0, &b), end(&[&a, &b])];
        assert_eq!(names(&responses(&sse(&told))), ["a", "b"], "{ids:?}");
        let told =
            [item("added", 0, &a), item("done", 0, &a), item("added", 0, &b), item("done", 0, &b), end(&[&a, &b])];
        assert_eq!(names(&responses(&sse(&told))), ["a", "b"], "{ids:?}");
    }
    // An item whose ID changes each time is still one item.
    let said = |id: &str| json!({"type": "message", "id": id, "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]});
    let told = [item("added", 0, &said("1")), item("done", 0, &said("2")), end(&[&said("3")])];
    assert_eq!(responses(&sse(&told)).message.content.len(), 1);
}

#[test]
fn streamed_deltas_make_up_the_item_when_its_done_event_is_missing() {
    let message = json!({"type": "message", "id": "m", "role": "assistant", "content": []});
    let begun = json!({"type": "function_call", "id": "f", "call_id": "c", "name": "ls", "arguments": ""});
    let delta = |kind: &str, index: u64, text: &str| json!({"type": format!("response.{kind}.delta"), "output_index": index, "delta": text});
    let told = [
        item("added", 0, &message),
        delta("output_text", 0, "On "),
        delta("output_text", 0, "it."),
        item("added", 1, &begun),
        delta("function_call_arguments", 1, "{\"path\":"),
        delta("function_call_arguments", 1, "\"/\"}"),
        end(&[]),
    ];
    let output = responses(&sse(&told));
    assert_eq!(output.message.text(), "On it.");
    assert_eq!(output.message.tool_calls().next().unwrap().args, json!({"path": "/"}));
}

#[test]
fn non_string_arguments_are_parsed_or_rejected_but_never_dropped() {
    let with = |arguments: Value| {
        let mut call = call("f", "ls");
        call["arguments"] = arguments;
        responses(&json!({"id": "r", "status": "completed", "output": [call]}).to_string()).message.content.remove(0)
    };
    let Block::ToolCall(read) = with(json!({"path": "/"})) else { panic!("no call") };
    assert_eq!(
        (read.args, &read.native.unwrap().value()["arguments"]),
        (json!({"path": "/"}), &json!("{\"path\":\"/\"}"))
    );
    assert!(matches!(with(json!([1, 2])), Block::InvalidToolCall(call) if call.raw == "[1,2]"));
    let call = json!({"id": "c", "function": {"name": "ls", "arguments": [1, 2]}});
    let body = json!({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    let output = chat(&body.to_string()).unwrap();
    assert!(matches!(&output.message.content[0], Block::InvalidToolCall(call) if call.raw == "[1,2]"));
}
