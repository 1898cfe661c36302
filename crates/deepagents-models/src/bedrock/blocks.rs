//! Converts content blocks of the Converse API to ours.

use deepagents_core::message::{Block, ProviderItem, Reasoning, Text};
use serde_json::{Map, Value, json};

use crate::blocks::{self, native, provider_item};
use crate::json::text;
use crate::{args, exact};

/// Returns whether a block is reasoning.
pub(super) fn is_thought(block: &Value) -> bool {
    block.get("reasoningContent").is_some()
}

/// Returns whether the provider executes a call itself. All others are ours, whatever else their type says.
pub(super) fn is_servers(made: &Value) -> bool {
    made.get("type").is_some_and(|kind| kind == "server_tool_use")
}

/// Converts a complete block. Keeps the original if ours does not represent everything.
pub(super) fn block(mut item: Map<String, Value>) -> Block {
    let is_alone = item.len() == 1;
    if let Some(Value::String(text)) = item.get("text") {
        let text = text.clone();
        return Block::Text(Text { text, native: if is_alone { None } else { native(item) } });
    }
    if let Some(thought) = item.get("reasoningContent") {
        let text = text(thought.pointer("/reasoningText/text")).to_owned();
        return Block::Reasoning(Reasoning { text, native: native(item) });
    }
    if let Some(cited) = item.get("citationsContent") {
        let parts = cited.get("content").and_then(Value::as_array).into_iter().flatten();
        let text = parts.filter_map(|part| part.get("text")?.as_str()).collect();
        return Block::Text(Text { text, native: native(item) });
    }
    if let Some(made) = item.get_mut("toolUse").filter(|made| !is_servers(made)).and_then(Value::as_object_mut) {
        // Responses mark calls with a type that requests do not accept.
        made.remove("type");
        let [id, name] = ["toolUseId", "name"].map(|key| text(made.get(key)).to_owned());
        let args = args::from_field(made.get("input"));
        let usual = is_alone && made.len() <= 3 && !(args.is_ok() && made.get("input").is_some_and(Value::is_string));
        if args.is_err() {
            made.insert("input".to_owned(), json!({}));
        }
        return blocks::call(id, name, args, if usual { None } else { native(item) });
    }
    provider_item(Value::Object(item))
}

/// Creates a call whose input arrived as text.
pub(super) fn call(id: String, name: String, raw: &str, was_cut: bool) -> Block {
    let args = args::from_text(raw, was_cut && raw.trim().is_empty());
    let verbatim = args.as_ref().ok().and_then(|args| exact::verbatim(raw, args));
    let item = |input| json!({"toolUse": {"toolUseId": id, "name": name, "input": input}});
    let native = verbatim.map(|input| ProviderItem::new(item(input)));
    blocks::call(id, name, args, native)
}
