//! Preserves the parts of a client's message that the internal format lacks, so that clients read back what they wrote.

use deepagents_core::message::{Block, MediaSource, Message};
use serde_json::{Map, Value, json};

use super::message::content;
use super::message_input::role_name;
use crate::json::set;

/// Texts longer than this, in bytes, are stored by reference.
const MAX_INLINE_BYTES: usize = 64;
/// Key of a reference to the text of a message block by its index. `before` holds the text in front of it.
const BLOCK: &str = "__block__";

/// Stores with a user message what its other fields do not express.
pub(super) fn keep_original(wire: &Value, message: Message) -> Message {
    let Message::User(mut said) = message else { return message };
    let mut kept = Map::new();
    let text = |key: &str| wire.get(key).and_then(Value::as_str);
    let role = text("role").or_else(|| text("type")).map(role_name);
    if matches!(role, Some("system" | "developer" | "System")) {
        kept.insert("type".to_owned(), "system".into());
    }
    for key in ["name", "additional_kwargs", "response_metadata"] {
        let given = wire.get(key).filter(|value| !value.is_null() && **value != json!({}));
        kept.extend(given.map(|value| (key.to_owned(), value.clone())));
    }
    let given = wire.get("content").filter(|given| **given != content(&said.content));
    kept.extend(given.map(|given| ("content".to_owned(), hide(given, &said.content))));
    if !kept.is_empty() {
        said.as_sent = Some(Box::new(Value::Object(kept)));
    }
    Message::User(said)
}

/// Restores the preserved fields in a serialised message.
pub(super) fn show(message: &Message, shown: &mut Value) {
    let Message::User(said) = message else { return };
    let Some(Value::Object(kept)) = said.as_sent.as_deref() else { return };
    for (key, value) in kept {
        set(shown, key, if key == "content" { fill(value, &said.content) } else { value.clone() });
    }
}

/// Returns the text of a block that may be long.
fn text(block: &Block) -> Option<&str> {
    match block {
        Block::Text(text) => Some(&text.text),
        Block::Media(media) => match &media.source {
            MediaSource::Base64(text) | MediaSource::Url(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Replaces long texts that are already in the blocks by references.
fn hide(value: &Value, blocks: &[Block]) -> Value {
    match value {
        Value::String(own) if own.len() > MAX_INLINE_BYTES => {
            let found = blocks.iter().enumerate().find_map(|(at, block)| {
                let before = own.strip_suffix(text(block).filter(|text| !text.is_empty())?)?;
                Some(json!({BLOCK: at, "before": before}))
            });
            found.unwrap_or_else(|| value.clone())
        }
        Value::Array(list) => list.iter().map(|value| hide(value, blocks)).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), hide(value, blocks))).collect(),
        other => other.clone(),
    }
}

fn fill(value: &Value, blocks: &[Block]) -> Value {
    match value {
        Value::Array(list) => list.iter().map(|value| fill(value, blocks)).collect(),
        Value::Object(map) => {
            let at = map.get(BLOCK).and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok());
            let before = map.get("before").and_then(Value::as_str);
            match (at.and_then(|at| blocks.get(at)).and_then(text), before) {
                (Some(text), Some(before)) => format!("{before}{text}").into(),
                _ => map.iter().map(|(key, value)| (key.clone(), fill(value, blocks))).collect(),
            }
        }
        other => other.clone(),
    }
}
