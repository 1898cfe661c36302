//! Converts content blocks of the Converse API to ours.

use deepagents_core::message::{Block, InvalidToolCall, ProviderBlock, ProviderItem, Reasoning, Text, ToolCall};
use serde_json::{Map, Value, json};

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
    if let Some(Value::String(text)) = item.get_mut("text") {
        let text = text.clone();
        return Block::Text(Text { text, native: if is_alone { None } else { native(item) } });
    }
    if let Some(thought) = item.get("reasoningContent") {
        let text = thought.pointer("/reasoningText/text").and_then(Value::as_str).unwrap_or_default().to_owned();
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
        let field = |key: &str| made.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (id, name) = (field("toolUseId"), field("name"));
        let usual = is_alone && made.len() <= 3;
        return match made.get("input").cloned().unwrap_or_else(|| json!({})) {
            args @ Value::Object(_) => {
                Block::ToolCall(ToolCall { id, name, args, native: if usual { None } else { native(item) } })
            }
            other if exact::read(&other).is_some() => {
                let args = exact::read(&other).unwrap_or_default();
                Block::ToolCall(ToolCall { id, name, args, native: native(item) })
            }
            other => {
                let error = "the arguments are not an object".to_owned();
                made.insert("input".to_owned(), json!({}));
                let native = if usual { None } else { native(item) };
                Block::InvalidToolCall(InvalidToolCall { id, name, raw: other.to_string(), error, native })
            }
        };
    }
    Block::ProviderItem(ProviderBlock { native: ProviderItem::new(Value::Object(item)) })
}

/// Creates a call whose input arrived as text.
pub(super) fn call(id: String, name: String, raw: String, was_cut: bool) -> Block {
    let cut = was_cut && raw.trim().is_empty();
    match args::parse(&raw) {
        Ok(args) if !cut => {
            let (input, is_exact) = exact::kept(&raw, &args);
            let item = || json!({"toolUse": {"toolUseId": id, "name": name, "input": input}});
            let native = is_exact.then(|| ProviderItem::new(item()));
            Block::ToolCall(ToolCall { id, name, args, native })
        }
        Ok(_) => {
            let error = args::CUT_OFF.to_owned();
            Block::InvalidToolCall(InvalidToolCall { id, name, raw, error, native: None })
        }
        Err(error) => Block::InvalidToolCall(InvalidToolCall { id, name, raw, error, native: None }),
    }
}

fn native(item: Map<String, Value>) -> Option<ProviderItem> {
    Some(ProviderItem::new(Value::Object(item)))
}
