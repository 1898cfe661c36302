//! Answers of the Messages API.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{append, events, text};

/// Returns the content blocks of an answer. The text of a call's input is parsed if it is JSON.
pub(crate) fn blocks(body: &[u8]) -> Vec<Value> {
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
            // A truncated input cannot be sent as an object.
            block.insert("input".to_owned(), serde_json::from_str(input).unwrap_or_else(|_| json!({})));
        }
    }
    blocks.into_values().map(Value::Object).collect()
}
