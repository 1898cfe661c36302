//! Parts of an answer as blocks.

use deepagents_core::message::{
    Block, InvalidToolCall, Media, MediaKind, MediaSource, ProviderBlock, ProviderItem, Reasoning, Text, ToolCall,
};
use serde_json::{Map, Value, json};

/// The key of a signature, on a part or alone behind a medium.
pub(super) const SIGNATURE: &str = "thoughtSignature";

/// What the model did outside of its parts, such as the pages that it found: kept for the user, never sent back.
const ASIDE: [&str; 3] = ["groundingMetadata", "urlContextMetadata", "citationMetadata"];

/// Whether an item is a part of a content.
pub(super) fn is_part(item: &Value) -> bool {
    item.as_object().is_some_and(|item| !item.keys().all(|key| key == SIGNATURE || ASIDE.contains(&key.as_str())))
}

/// Puts a signature that stands alone back on the part that it came with.
pub(super) fn merge_signature(parts: &mut [Value], item: &Value) {
    if let (Some(signature), Some(Value::Object(part))) = (item.get(SIGNATURE), parts.last_mut()) {
        part.insert(SIGNATURE.to_owned(), signature.clone());
    }
}

/// What a candidate says outside of its parts.
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

/// A part as blocks: one, or a medium and its signature. The part itself is kept where the block does not say everything.
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
        let signature = part.get(SIGNATURE).map(|signature| item(json!({SIGNATURE: signature})));
        return std::iter::once(Block::Media(medium)).chain(signature).collect();
    }
    vec![item(Value::Object(part))]
}

fn tool_call(mut call: Map<String, Value>, part: Map<String, Value>, generated: impl FnOnce() -> String) -> Block {
    let text =
        |call: &Map<String, Value>, key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (given, name) = (text(&call, "id"), text(&call, "name"));
    let more = !given.is_empty() || part.len() > 1 || call.len() > 2;
    let id = if given.is_empty() { generated() } else { given };
    let native = more.then(|| ProviderItem::new(Value::Object(part)));
    match call.remove("args") {
        None | Some(Value::Null) => Block::ToolCall(ToolCall { id, name, args: json!({}), native }),
        Some(args @ Value::Object(_)) => Block::ToolCall(ToolCall { id, name, args, native }),
        Some(other) => {
            let error = "the arguments are not an object".to_owned();
            Block::InvalidToolCall(InvalidToolCall { id, name, raw: other.to_string(), error })
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
    Some(Media { kind, mime, source: MediaSource::Base64(data.get("data")?.as_str()?.to_owned()), name: None })
}
