//! What a model said according to the recording, folded by plain rules that share nothing with the clients.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The events of a recorded body: the one object of a plain answer, or the data of a streamed one.
fn events(body: &str) -> Vec<Value> {
    if body.trim_start().starts_with('{') {
        return serde_json::from_str(body).into_iter().collect();
    }
    let data = body.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data.trim()).ok()).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn append(block: &mut Map<String, Value>, key: &str, more: &str) {
    let so_far = block.get(key).and_then(Value::as_str).unwrap_or_default();
    block.insert(key.to_owned(), Value::String(format!("{so_far}{more}")));
}

/// The content blocks of an answer of the Messages API. The text of a call's input is parsed where it is JSON.
pub(crate) fn anthropic(body: &str) -> Vec<Value> {
    let mut blocks: BTreeMap<u64, Map<String, Value>> = BTreeMap::new();
    let mut inputs: BTreeMap<u64, String> = BTreeMap::new();
    for event in events(body) {
        if let Some(Value::Array(content)) = event.get("content") {
            return content.clone();
        }
        let index = event.get("index").and_then(Value::as_u64).unwrap_or_default();
        if let Some(Value::Object(block)) = event.get("content_block") {
            blocks.insert(index, block.clone());
        }
        let (Some(delta), Some(block)) = (event.get("delta"), blocks.get_mut(&index)) else { continue };
        match text(delta, "type") {
            "text_delta" => append(block, "text", text(delta, "text")),
            "thinking_delta" => append(block, "thinking", text(delta, "thinking")),
            "signature_delta" => append(block, "signature", text(delta, "signature")),
            "input_json_delta" => inputs.entry(index).or_default().push_str(text(delta, "partial_json")),
            _ => {}
        }
    }
    for (index, input) in inputs.iter().filter(|(_, input)| !input.trim().is_empty()) {
        if let Some(block) = blocks.get_mut(index) {
            // What was cut cannot be sent as an object.
            block.insert("input".to_owned(), serde_json::from_str(input).unwrap_or_else(|_| json!({})));
        }
    }
    blocks.into_values().map(Value::Object).collect()
}

/// What an answer of Chat Completions says.
#[derive(Debug, Default)]
pub(crate) struct Chat {
    pub(crate) content: String,
    pub(crate) refusal: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<Call>,
}

/// A tool call, its arguments as text.
#[derive(Debug, Default)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) args: String,
}

/// Adds up the first choice of an answer, or reads a message of a request the same way.
pub(crate) fn chat(body: &str) -> Chat {
    let (mut said, mut calls) = (Chat::default(), BTreeMap::new());
    for event in events(body) {
        let choices = event.get("choices").and_then(Value::as_array).cloned().unwrap_or_default();
        for choice in choices.iter().filter(|c| c.get("index").and_then(Value::as_u64).unwrap_or_default() == 0) {
            for key in ["message", "delta"] {
                if let Some(message) = choice.get(key) {
                    add(&mut said, &mut calls, message, key == "message");
                }
            }
        }
    }
    said.calls = calls.into_values().collect();
    said
}

/// A message of a request.
pub(crate) fn message(message: &Value) -> Chat {
    let (mut said, mut calls) = (Chat::default(), BTreeMap::new());
    add(&mut said, &mut calls, message, true);
    said.calls = calls.into_values().collect();
    said
}

fn add(said: &mut Chat, calls: &mut BTreeMap<u64, Call>, message: &Value, whole: bool) {
    match message.get("content") {
        Some(Value::String(content)) => said.content.push_str(content),
        Some(Value::Array(items)) => {
            for item in items {
                said.content.push_str(text(item, "text"));
                let thinking = item.get("thinking").and_then(Value::as_array);
                thinking.into_iter().flatten().for_each(|thought| said.reasoning.push_str(text(thought, "text")));
            }
        }
        _ => {}
    }
    said.refusal.push_str(text(message, "refusal"));
    let fields = ["reasoning_content", "reasoning"].map(|key| text(message, key));
    said.reasoning.push_str(fields.into_iter().find(|field| !field.is_empty()).unwrap_or_default());
    let list = message.get("tool_calls").and_then(Value::as_array);
    for (position, call) in (0_u64..).zip(list.into_iter().flatten()) {
        let index = if whole { None } else { call.get("index").and_then(Value::as_u64) };
        let entry = calls.entry(index.unwrap_or(position)).or_default();
        let function = call.get("function").unwrap_or(&Value::Null);
        entry.id.push_str(text(call, "id"));
        entry.name.push_str(text(function, "name"));
        match function.get("arguments") {
            Some(Value::String(args)) => entry.args.push_str(args),
            Some(args) if !args.is_null() => entry.args.push_str(&args.to_string()),
            _ => {}
        }
    }
}
