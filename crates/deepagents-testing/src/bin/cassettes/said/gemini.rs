//! Answers of the Gemini API.

use serde_json::{Map, Value};

use super::events;

/// Returns the parts of the answer, joining chunks of text. A part with a signature is kept separate.
pub(crate) fn parts(body: &[u8]) -> Vec<Value> {
    let mut parts: Vec<Map<String, Value>> = Vec::new();
    for event in events(body) {
        let list = event.pointer("/candidates/0/content/parts").and_then(Value::as_array).cloned().unwrap_or_default();
        for part in list.into_iter().filter_map(|part| part.as_object().cloned()) {
            let plain = |part: &Map<String, Value>| part.contains_key("text") && !part.contains_key("thoughtSignature");
            match (parts.last_mut(), part.get("text").and_then(Value::as_str)) {
                (Some(last), Some(more))
                    if plain(last) && plain(&part) && last.get("thought") == part.get("thought") =>
                {
                    super::append(last, "text", more);
                }
                // An empty text has no content.
                (_, Some("")) if plain(&part) => {}
                _ => parts.push(part),
            }
        }
    }
    parts.into_iter().map(Value::Object).collect()
}
