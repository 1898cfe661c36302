//! Answers of Bedrock's Converse API. Streamed ones consist of frames with lengths, headers and payloads.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::text;

/// Returns the content blocks of an answer.
pub(crate) fn blocks(body: &[u8]) -> Vec<Value> {
    if let Ok(answer) = serde_json::from_slice::<Value>(body) {
        let content = answer.pointer("/output/message/content").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut blocks: Vec<Map<String, Value>> = content.iter().filter_map(|b| b.as_object().cloned()).collect();
        blocks.iter_mut().for_each(drop_type);
        return blocks.into_iter().map(Value::Object).collect();
    }
    let mut blocks: BTreeMap<u64, Map<String, Value>> = BTreeMap::new();
    let mut inputs: BTreeMap<u64, String> = BTreeMap::new();
    for event in payloads(body) {
        let Some(index) = event.get("contentBlockIndex").and_then(Value::as_u64) else { continue };
        let block = blocks.entry(index).or_default();
        if let Some(start) = event.get("start").and_then(Value::as_object) {
            block.extend(start.clone());
            drop_type(block);
        }
        let Some(delta) = event.get("delta") else { continue };
        if delta.get("text").is_some() {
            super::append(block, "text", text(delta, "text"));
        }
        if let Some(call) = delta.get("toolUse") {
            inputs.entry(index).or_default().push_str(text(call, "input"));
        }
        if let Some(thought) = delta.get("reasoningContent") {
            let known = block.entry("reasoningContent").or_insert_with(|| json!({"reasoningText": {}}));
            if let Some(Value::Object(known)) = known.get_mut("reasoningText") {
                for key in ["text", "signature"].into_iter().filter(|key| thought.get(*key).is_some()) {
                    super::append(known, key, text(thought, key));
                }
            }
        }
    }
    for (index, input) in inputs {
        let input =
            serde_json::from_str(if input.trim().is_empty() { "{}" } else { &input }).unwrap_or_else(|_| json!({}));
        if let Some(Value::Object(call)) = blocks.get_mut(&index).and_then(|block| block.get_mut("toolUse")) {
            call.insert("input".to_owned(), input);
        }
    }
    blocks.into_values().map(Value::Object).collect()
}

/// Removes the type of calls. Answers contain it for all calls; requests allow it only for the provider's own tools.
fn drop_type(block: &mut Map<String, Value>) {
    if let Some(Value::Object(call)) = block.get_mut("toolUse")
        && call.get("type").is_some_and(|kind| kind == "tool_use")
    {
        call.remove("type");
    }
}

/// Returns the payloads of the frames. A frame has two lengths and a checksum, headers, the payload, and a checksum.
pub(super) fn payloads(mut body: &[u8]) -> Vec<Value> {
    let mut payloads = Vec::new();
    let length = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(bytes)).ok()
    };
    while let (Some(total), Some(headers)) = (length(body, 0), length(body, 4)) {
        let payload = total.checked_sub(4).and_then(|end| body.get(12 + headers..end)).unwrap_or_default();
        payloads.extend(serde_json::from_slice::<Value>(payload));
        body = body.get(total.max(1)..).unwrap_or_default();
    }
    payloads
}
