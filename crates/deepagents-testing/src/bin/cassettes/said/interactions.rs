//! Answers of Google's Interactions API.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{events, text};

/// Returns the steps, in order.
pub(crate) fn steps(body: &[u8]) -> Vec<Value> {
    let mut steps: BTreeMap<u64, Map<String, Value>> = BTreeMap::new();
    let mut arguments: BTreeMap<u64, String> = BTreeMap::new();
    for event in events(body) {
        if let Some(steps) = event.get("steps").and_then(Value::as_array) {
            return steps.clone();
        }
        let index = event.get("index").and_then(Value::as_u64).unwrap_or_default();
        if let Some(step) = event.get("step").and_then(Value::as_object) {
            steps.insert(index, step.clone());
        }
        let (Some(delta), Some(step)) = (event.get("delta"), steps.get_mut(&index)) else { continue };
        match text(delta, "type") {
            "text" => {
                let content = step.entry("content").or_insert_with(|| json!([{"type": "text", "text": ""}]));
                if let Some(part) = content.get_mut(0).and_then(Value::as_object_mut) {
                    super::append(part, "text", text(delta, "text"));
                }
            }
            "thought_signature" => super::append(step, "signature", text(delta, "signature")),
            "arguments_delta" => arguments.entry(index).or_default().push_str(text(delta, "arguments")),
            _ => {}
        }
    }
    for (index, arguments) in arguments {
        if let Some(step) = steps.get_mut(&index) {
            step.insert("arguments".to_owned(), serde_json::from_str(&arguments).unwrap_or_else(|_| json!({})));
        }
    }
    steps.into_values().map(Value::Object).collect()
}
