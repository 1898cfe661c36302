//! Answers of Ollama's own API.

use serde_json::Value;

use super::text;

/// The content of an answer or of a message in a request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Message {
    pub(crate) content: String,
    pub(crate) thinking: String,
    /// Id, name and arguments of each call.
    pub(crate) calls: Vec<(String, String, Value)>,
}

/// Assembles the lines of an answer.
pub(crate) fn answer(body: &[u8]) -> Message {
    let mut said = Message::default();
    for line in String::from_utf8_lossy(body).lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        if let Some(message) = line.get("message") {
            said.add(message);
        }
    }
    said
}

/// Reads a message of a request.
pub(crate) fn message(message: &Value) -> Message {
    let mut said = Message::default();
    said.add(message);
    said
}

impl Message {
    fn add(&mut self, message: &Value) {
        self.content.push_str(text(message, "content"));
        self.thinking.push_str(text(message, "thinking"));
        for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let function = call.get("function").unwrap_or(&Value::Null);
            let args = function.get("arguments").cloned().unwrap_or_default();
            self.calls.push((text(call, "id").to_owned(), text(function, "name").to_owned(), args));
        }
    }
}
