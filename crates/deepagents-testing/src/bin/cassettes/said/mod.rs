//! What a model said according to the recording, assembled by simple code that shares nothing with the clients.

pub(crate) mod anthropic;
pub(crate) mod bedrock;
pub(crate) mod chat;
pub(crate) mod gemini;
pub(crate) mod interactions;
pub(crate) mod ollama;
pub(crate) mod responses;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

/// Returns the events of a recorded body: the object or list of a plain answer, or the data of a streamed one.
pub(crate) fn events(body: &[u8]) -> Vec<Value> {
    if body.first() == Some(&0) {
        let chunks = bedrock::payloads(body).into_iter();
        let bytes = chunks.filter_map(|chunk| BASE64_STANDARD.decode(chunk.get("bytes")?.as_str()?).ok());
        return bytes.filter_map(|bytes| serde_json::from_slice(&bytes).ok()).collect();
    }
    let body = String::from_utf8_lossy(body).replace("\r\n", "\n").replace('\r', "\n");
    let body = body.trim_start_matches('\u{feff}').trim_start();
    match serde_json::from_str(body) {
        Ok(Value::Array(list)) => return list,
        Ok(value) => return vec![value],
        Err(_) => {}
    }
    let mut events = Vec::new();
    for event in body.split("\n\n") {
        let lines: Vec<&str> = event.lines().filter_map(|line| line.strip_prefix("data:")).collect();
        match serde_json::from_str(&lines.join("\n")) {
            Ok(value) => events.push(value),
            // Some servers omit the blank line between two events.
            Err(_) => events.extend(lines.iter().filter_map(|line| serde_json::from_str::<Value>(line.trim()).ok())),
        }
    }
    events
}

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn append(block: &mut Map<String, Value>, key: &str, more: &str) {
    let so_far = block.get(key).and_then(Value::as_str).unwrap_or_default();
    block.insert(key.to_owned(), Value::String(format!("{so_far}{more}")));
}
