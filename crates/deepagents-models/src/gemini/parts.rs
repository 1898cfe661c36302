//! Converts parts of a response to blocks.

use deepagents_core::message::{
    Block, InvalidToolCall, Media, MediaKind, MediaSource, ProviderBlock, ProviderItem, Reasoning, Text, ToolCall,
};
use serde_json::{Map, Value, json};

use crate::exact;

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

/// Marks the first call of a response if the model did not sign it, since models that sign their calls reject it
/// otherwise.
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
    (!asides.is_empty()).then(|| item(Value::Object(asides)))
}

fn item(native: Value) -> Block {
    Block::ProviderItem(ProviderBlock { native: ProviderItem::new(native) })
}

/// Converts a part to blocks: one, or a medium and an item with its other fields. Keeps the part itself if the block
/// does not represent everything.
pub(super) fn blocks(part: Map<String, Value>, id: impl FnOnce() -> String) -> Vec<Block> {
    let is_thought = part.get("thought").is_some_and(|thought| thought == true);
    if let Some(Value::String(text)) = part.get("text") {
        let text = text.clone();
        let usual = part.len() == 1 + usize::from(is_thought);
        let native = (!usual).then(|| ProviderItem::new(Value::Object(part)));
        return match (is_thought, &native) {
            (true, _) => vec![Block::Reasoning(Reasoning { text, native })],
            (false, _) => vec![Block::Text(Text { text, native })],
        };
    }
    if let Some(Value::Object(call)) = part.get("functionCall") {
        return vec![tool_call(call.clone(), part, id)];
    }
    if let Some(medium) = part.get("inlineData").and_then(medium) {
        let beside: Map<String, Value> = part.into_iter().filter(|(key, _)| BESIDE.contains(&key.as_str())).collect();
        let beside = (!beside.is_empty()).then(|| item(Value::Object(beside)));
        return std::iter::once(Block::Media(medium)).chain(beside).collect();
    }
    vec![item(Value::Object(part))]
}

fn tool_call(mut call: Map<String, Value>, part: Map<String, Value>, generated: impl FnOnce() -> String) -> Block {
    let text =
        |call: &Map<String, Value>, key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (given, name) = (text(&call, "id"), text(&call, "name"));
    let exact = call.get("args").and_then(exact::read);
    let more = !given.is_empty() || part.len() > 1 || call.len() > 2 || exact.is_some();
    let id = if given.is_empty() { generated() } else { given };
    let native = more.then(|| ProviderItem::new(Value::Object(part)));
    match exact.or_else(|| call.remove("args")) {
        None | Some(Value::Null) => Block::ToolCall(ToolCall { id, name, args: json!({}), native }),
        Some(args @ Value::Object(_)) => Block::ToolCall(ToolCall { id, name, args, native }),
        Some(other) => {
            let error = "the arguments are not an object".to_owned();
            // It is sent back with its signature, and with an object in place of arguments that the API would reject.
            let native = native.map(|ProviderItem(mut part)| {
                if let Some(args) = part.pointer_mut("/functionCall/args") {
                    *args = json!({});
                }
                ProviderItem(part)
            });
            Block::InvalidToolCall(InvalidToolCall { id, name, raw: other.to_string(), error, native })
        }
    }
}

fn medium(data: &Value) -> Option<Media> {
    let mime = data.get("mimeType")?.as_str()?.to_owned();
    let kind = match mime.split('/').next() {
        Some("image") => MediaKind::Image,
        Some("audio") => MediaKind::Audio,
        Some("video") => MediaKind::Video,
        _ => MediaKind::File,
    };
    let name = data.get("displayName").and_then(Value::as_str).map(str::to_owned);
    Some(Media { kind, mime, source: MediaSource::Base64(data.get("data")?.as_str()?.to_owned()), name })
}
