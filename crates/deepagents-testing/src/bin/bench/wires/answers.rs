//! A model that gives the same answers on every wire: a few words and tool calls, and finally that it is done.

use anyhow::{Context, Result};
use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use serde_json::{Value, json};

/// A model API protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    Anthropic,
    Chat,
    Responses,
    Gemini,
    Ollama,
    Bedrock,
}

/// All wires. The first one is the reference for the others.
pub(super) const WIRES: [Wire; 6] =
    [Wire::Anthropic, Wire::Chat, Wire::Responses, Wire::Gemini, Wire::Ollama, Wire::Bedrock];

const ANSWER_TEXT: &str = "I look it up.";

/// A tool call of the model.
pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) arguments: Value,
}

impl Wire {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Chat => "openai-chat",
            Self::Responses => "openai",
            Self::Gemini => "google",
            Self::Ollama => "ollama",
            Self::Bedrock => "bedrock",
        }
    }

    pub(super) fn find(name: &str) -> Result<Self> {
        WIRES.into_iter().find(|wire| wire.name() == name).with_context(|| format!("there is no wire {name}"))
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Ollama => "application/x-ndjson",
            Self::Bedrock => "application/vnd.amazon.eventstream",
            _ => "text/event-stream",
        }
    }

    /// Encodes an answer with these calls.
    pub(super) fn answer(self, calls: &[Call]) -> Result<Vec<u8>> {
        Ok(match self {
            Self::Anthropic => named_events(&anthropic(calls)),
            Self::Chat => data(&chat(calls), "data: [DONE]\n\n"),
            Self::Responses => named_events(&responses(calls)),
            Self::Gemini => data(&gemini(calls), ""),
            Self::Ollama => ollama(calls).iter().flat_map(|line| format!("{line}\n").into_bytes()).collect(),
            Self::Bedrock => {
                let mut out = Vec::new();
                for (kind, payload) in bedrock(calls) {
                    let event = [(":message-type", "event"), (":event-type", kind)].into_iter().fold(
                        Message::new(payload.to_string()),
                        |event, (name, value)| {
                            event.add_header(Header::new(name, HeaderValue::String(value.to_owned().into())))
                        },
                    );
                    write_message_to(&event, &mut out)?;
                }
                out
            }
        })
    }
}

/// Encodes events, named by their `type`.
fn named_events(events: &[Value]) -> Vec<u8> {
    let text = events.iter().map(|event| {
        let name = event.get("type").and_then(Value::as_str).unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n")
    });
    text.collect::<String>().into_bytes()
}

fn data(events: &[Value], end: &str) -> Vec<u8> {
    let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    (text + end).into_bytes()
}

fn anthropic(calls: &[Call]) -> Vec<Value> {
    let mut out = vec![
        json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
            "usage": {"input_tokens": 9, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER_TEXT}}),
        json!({"type": "content_block_stop", "index": 0}),
    ];
    for (at, call) in calls.iter().enumerate() {
        let index = at + 1;
        let block = json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": {}});
        let arguments = json!({"type": "input_json_delta", "partial_json": call.arguments.to_string()});
        out.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        out.push(json!({"type": "content_block_delta", "index": index, "delta": arguments}));
        out.push(json!({"type": "content_block_stop", "index": index}));
    }
    let why = if calls.is_empty() { "end_turn" } else { "tool_use" };
    out.push(json!({"type": "message_delta", "delta": {"stop_reason": why}, "usage": {"output_tokens": 7}}));
    out.push(json!({"type": "message_stop"}));
    out
}

fn chat(calls: &[Call]) -> Vec<Value> {
    let piece = |delta: Value, why: Value| json!({"id": "m", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": why}]});
    let mut out = vec![piece(json!({"role": "assistant", "content": ANSWER_TEXT}), Value::Null)];
    for (index, call) in calls.iter().enumerate() {
        let function = json!({"name": call.tool, "arguments": call.arguments.to_string()});
        let call = json!({"index": index, "id": call.id, "type": "function", "function": function});
        out.push(piece(json!({"tool_calls": [call]}), Value::Null));
    }
    out.push(piece(json!({}), json!(if calls.is_empty() { "stop" } else { "tool_calls" })));
    out.push(json!({"id": "m", "object": "chat.completion.chunk", "choices": [],
        "usage": {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}}));
    out
}

fn responses(calls: &[Call]) -> Vec<Value> {
    let message = json!({"id": "msg", "type": "message", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": ANSWER_TEXT, "annotations": []}]});
    let begun = json!({"id": "msg", "type": "message", "status": "in_progress", "role": "assistant", "content": []});
    let mut out = vec![
        json!({"type": "response.created", "response": {"id": "r", "status": "in_progress"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": begun}),
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": ANSWER_TEXT}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": message}),
    ];
    let mut items = vec![message];
    for (at, call) in calls.iter().enumerate() {
        let (at, arguments) = (at + 1, call.arguments.to_string());
        let made = |arguments: &str, status: &str| {
            json!({"id": format!("fc_{}", call.id), "type": "function_call", "status": status, "call_id": call.id,
                "name": call.tool, "arguments": arguments})
        };
        let item = made(&arguments, "completed");
        let delta = "response.function_call_arguments.delta";
        out.push(json!({"type": "response.output_item.added", "output_index": at, "item": made("", "in_progress")}));
        out.push(json!({"type": delta, "output_index": at, "delta": arguments}));
        out.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
        items.push(item);
    }
    out.push(json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": items,
        "usage": {"input_tokens": 9, "output_tokens": 7, "total_tokens": 16}}}));
    out
}

fn gemini(calls: &[Call]) -> Vec<Value> {
    let piece = |part: Value, why: Option<&str>| {
        let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": [part]}});
        if let (Some(why), Some(fields)) = (why, candidate.as_object_mut()) {
            fields.insert("finishReason".to_owned(), json!(why));
        }
        json!({"responseId": "r", "candidates": [candidate],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 7}})
    };
    let mut out = vec![piece(json!({"text": ANSWER_TEXT}), None)];
    for call in calls {
        let made = json!({"id": call.id, "name": call.tool, "args": call.arguments});
        out.push(piece(json!({"functionCall": made, "thoughtSignature": "S"}), None));
    }
    out.push(piece(json!({"text": ""}), Some("STOP")));
    out
}

fn ollama(calls: &[Call]) -> Vec<Value> {
    let mut out = vec![json!({"message": {"role": "assistant", "content": ANSWER_TEXT}, "done": false})];
    for call in calls {
        let call = json!({"function": {"name": call.tool, "arguments": call.arguments}});
        out.push(json!({"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": false}));
    }
    out.push(json!({"message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop",
        "prompt_eval_count": 9, "eval_count": 7}));
    out
}

fn bedrock(calls: &[Call]) -> Vec<(&'static str, Value)> {
    let delta = |index: u64, delta: Value| ("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}));
    let mut out = vec![
        ("messageStart", json!({"role": "assistant"})),
        delta(0, json!({"text": ANSWER_TEXT})),
        ("contentBlockStop", json!({"contentBlockIndex": 0})),
    ];
    for (at, call) in (1..).zip(calls) {
        let start = json!({"toolUse": {"toolUseId": call.id, "name": call.tool}});
        out.push(("contentBlockStart", json!({"contentBlockIndex": at, "start": start})));
        out.push(delta(at, json!({"toolUse": {"input": call.arguments.to_string()}})));
        out.push(("contentBlockStop", json!({"contentBlockIndex": at})));
    }
    out.push(("messageStop", json!({"stopReason": if calls.is_empty() { "end_turn" } else { "tool_use" }})));
    out.push(("metadata", json!({"usage": {"inputTokens": 9, "outputTokens": 7}})));
    out
}
