//! What a model said according to the recording, folded by plain rules that share nothing with the clients.

pub(crate) mod anthropic;
pub(crate) mod bedrock;
pub(crate) mod chat;
pub(crate) mod gemini;
pub(crate) mod interactions;
pub(crate) mod ollama;
pub(crate) mod responses;

use serde_json::{Map, Value};

/// The events of a recorded body: the one object of a plain answer, or the data of a streamed one.
fn events(body: &[u8]) -> Vec<Value> {
    let body = String::from_utf8_lossy(body);
    if body.trim_start().starts_with('{') {
        return serde_json::from_str(&body).into_iter().collect();
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
