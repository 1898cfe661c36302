//! Converts parts of a response to blocks.

use deepagents_core::message::{Block, Media, MediaSource, Reasoning, Text};
use serde_json::{Map, Value, json};

use crate::args;
use crate::blocks::{self, native, provider_item};
use crate::json::text;

/// Key of a signature, on a part or in a separate item after a medium.
pub(super) const SIGNATURE: &str = "thoughtSignature";

/// Path of the call arguments in a content.
pub(super) const ARGS: [&str; 3] = ["parts", "functionCall", "args"];

/// Fields of a medium other than its data.
const BESIDE: [&str; 2] = [SIGNATURE, "thought"];

/// Metadata of the response, such as pages it found: kept for the user, never sent back.
const ASIDE: [&str; 3] = ["groundingMetadata", "urlContextMetadata", "citationMetadata"];

/// Returns whether an item is a part of a content.
pub(super) fn is_part(item: &Value) -> bool {
    let is_beside = |key: &str| BESIDE.contains(&key) || ASIDE.contains(&key);
    item.as_object().is_some_and(|item| !item.keys().all(|key| is_beside(key)))
}

/// Puts a separate item back on the medium it came with.
pub(super) fn merge_beside(parts: &mut [Value], item: &Value) {
    let Some(Value::Object(part)) = parts.last_mut() else { return };
    let values = BESIDE.iter().filter_map(|key| Some(((*key).to_owned(), item.get(*key)?.clone())));
    part.extend(values);
}

/// Marks the first call of a response if it is not signed, since models that sign their calls reject it otherwise.
pub(super) fn sign_first_call(parts: &mut [Value]) {
    let call = parts.iter_mut().filter_map(Value::as_object_mut).find(|part| part.contains_key("functionCall"));
    if let Some(part) = call {
        part.entry(SIGNATURE).or_insert_with(|| "skip_thought_signature_validator".into());
    }
}

/// Returns a candidate's metadata outside its parts.
pub(super) fn asides(candidate: &Map<String, Value>) -> Option<Block> {
    let asides: Map<String, Value> = candidate
        .iter()
        .filter(|(key, value)| ASIDE.contains(&key.as_str()) && value.as_object().is_some_and(|v| !v.is_empty()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    (!asides.is_empty()).then(|| provider_item(Value::Object(asides)))
}

/// Converts a part to blocks: one, or a medium and an item with its other fields. Keeps the part itself if the block
/// does not represent everything.
pub(super) fn blocks(part: Map<String, Value>, id: impl FnOnce() -> String) -> Vec<Block> {
    let is_thought = part.get("thought").is_some_and(|thought| thought == true);
    if let Some(Value::String(text)) = part.get("text") {
        let text = text.clone();
        let usual = part.len() == 1 + usize::from(is_thought);
        let native = if usual { None } else { native(part) };
        return vec![match is_thought {
            true => Block::Reasoning(Reasoning { text, native }),
            false => Block::Text(Text { text, native }),
        }];
    }
    if part.get("functionCall").is_some_and(Value::is_object) {
        return vec![tool_call(part, id)];
    }
    if let Some(medium) = part.get("inlineData").and_then(medium) {
        let beside: Map<String, Value> = part.into_iter().filter(|(key, _)| BESIDE.contains(&key.as_str())).collect();
        let beside = (!beside.is_empty()).then(|| provider_item(Value::Object(beside)));
        return std::iter::once(Block::Media(medium)).chain(beside).collect();
    }
    vec![provider_item(Value::Object(part))]
}

/// Returns whether [`blocks`] makes two blocks of a part: a medium, and an item with its other fields.
pub(super) fn has_item_beside(part: &Map<String, Value>) -> bool {
    let is_medium = !part.get("text").is_some_and(Value::is_string)
        && !part.get("functionCall").is_some_and(Value::is_object)
        && part.get("inlineData").is_some_and(is_medium);
    is_medium && BESIDE.iter().any(|key| part.contains_key(*key))
}

/// Returns whether [`medium`] makes a medium of this.
fn is_medium(data: &Value) -> bool {
    ["mimeType", "data"].iter().all(|key| data.get(*key).is_some_and(Value::is_string))
}

fn tool_call(mut part: Map<String, Value>, generated: impl FnOnce() -> String) -> Block {
    let alone = part.len() == 1;
    let Some(Value::Object(call)) = part.get_mut("functionCall") else { return provider_item(Value::Object(part)) };
    let [given, name] = ["id", "name"].map(|key| text(call.get(key)).to_owned());
    let field = call.get("args").filter(|args| !args.is_null());
    let args = args::from_field(field);
    let is_exact = args.is_ok() && field.is_some_and(Value::is_string);
    let usual = given.is_empty() && alone && call.len() <= 2 && !is_exact;
    if let (Err(_), Some(args)) = (&args, call.get_mut("args")) {
        // It is sent back with its signature, and with an object in place of arguments that the API would reject.
        *args = json!({});
    }
    let id = if given.is_empty() { generated() } else { given };
    blocks::call(id, name, args, if usual { None } else { native(part) })
}

fn medium(data: &Value) -> Option<Media> {
    let field = |key: &str| data.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = field("displayName");
    Some(Media { name, ..Media::new(field("mimeType")?, MediaSource::Base64(field("data")?)) })
}
