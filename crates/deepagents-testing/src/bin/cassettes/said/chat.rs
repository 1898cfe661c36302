//! Answers of Chat Completions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{events, text};

/// The content of an answer.
#[derive(Debug, Default)]
pub(crate) struct Chat {
    pub(crate) content: String,
    pub(crate) refusal: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<Call>,
}

/// A tool call, with its arguments as text.
#[derive(Debug, Default)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) args: String,
}

/// Assembles the first choice of an answer.
pub(crate) fn answer(body: &[u8]) -> Chat {
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

/// Reads a message of a request in the same way.
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
                said.reasoning.push_str(text(item, "thinking"));
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
    // The predecessor of tool calls: one per message, without an id.
    if let (Some(function), None) = (message.get("function_call").filter(|function| function.is_object()), list) {
        let entry = calls.entry(0).or_default();
        entry.name.push_str(text(function, "name"));
        entry.args.push_str(text(function, "arguments"));
    }
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
