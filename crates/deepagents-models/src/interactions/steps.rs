//! Converts steps of an interaction to blocks.

use deepagents_core::message::{Block, InvalidToolCall, ProviderBlock, ProviderItem, Reasoning, Text, ToolCall};
use serde_json::{Map, Value};

use crate::exact;

/// Returns the text of a field.
pub(super) fn text<'a>(step: &'a Map<String, Value>, key: &str) -> &'a str {
    step.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Converts a complete step.
pub(super) fn block(mut step: Map<String, Value>) -> Block {
    let native = |step: Map<String, Value>| ProviderItem::new(Value::Object(step));
    match text(&step, "type") {
        "model_output" => Block::Text(Text { text: words(&step, "content"), native: Some(native(step)) }),
        "thought" => Block::Reasoning(Reasoning { text: words(&step, "summary"), native: Some(native(step)) }),
        "function_call" => {
            let (id, name) = (text(&step, "id").to_owned(), text(&step, "name").to_owned());
            let arguments = step.get("arguments").cloned().unwrap_or_else(|| Value::Object(Map::new()));
            match exact::read(&arguments).unwrap_or(arguments) {
                args @ Value::Object(_) => Block::ToolCall(ToolCall { id, name, args, native: Some(native(step)) }),
                other => {
                    let (raw, error) = match other {
                        Value::String(raw) => (raw, "the arguments are not valid JSON".to_owned()),
                        other => (other.to_string(), "the arguments are not an object".to_owned()),
                    };
                    // The API requires an object.
                    step.insert("arguments".to_owned(), Value::Object(Map::new()));
                    Block::InvalidToolCall(InvalidToolCall { id, name, raw, error, native: Some(native(step)) })
                }
            }
        }
        _ => Block::ProviderItem(ProviderBlock { native: native(step) }),
    }
}

/// Returns the texts of a step's parts.
fn words(step: &Map<String, Value>, field: &str) -> String {
    let parts = step.get(field).and_then(Value::as_array).into_iter().flatten();
    parts.filter_map(|part| part.get("text")?.as_str()).collect()
}
