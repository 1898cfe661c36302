//! Answers of the Responses API.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{events, text};

/// Returns the output items, in order.
pub(crate) fn items(body: &[u8]) -> Vec<Value> {
    let mut done: BTreeMap<u64, Value> = BTreeMap::new();
    let mut whole = Vec::new();
    for mut event in events(body) {
        if let Some(Value::Array(output)) = event.get_mut("output").map(Value::take) {
            return output;
        }
        let index = event.get("output_index").and_then(Value::as_u64).unwrap_or_default();
        match text(&event, "type") {
            "response.output_item.done" => {
                done.insert(index, event.get_mut("item").map(Value::take).unwrap_or_default());
            }
            "response.completed" | "response.incomplete" => {
                whole = event.pointer("/response/output").and_then(Value::as_array).cloned().unwrap_or_default();
            }
            _ => {}
        }
    }
    if done.is_empty() { whole } else { done.into_values().collect() }
}
