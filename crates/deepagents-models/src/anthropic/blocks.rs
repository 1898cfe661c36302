//! Converts content items of the Messages API to blocks.

use deepagents_core::message::{Block, InvalidToolCall, ProviderBlock, ProviderItem, Reasoning, Text, ToolCall};
use serde_json::{Map, Value};

use crate::{args, exact};

/// Converts a complete content item. Keeps the item itself only if the block does not represent everything.
pub(super) fn block(mut item: Map<String, Value>) -> Block {
    match item.get("type").and_then(Value::as_str).unwrap_or_default() {
        "text" => {
            if item.get("citations").is_some_and(is_empty) {
                item.remove("citations");
            }
            match (item.len(), item.get_mut("text")) {
                (2, Some(Value::String(text))) => Block::text(std::mem::take(text)),
                _ => Block::Text(Text { text: string(&item, "text"), native: native(item) }),
            }
        }
        "thinking" => Block::Reasoning(Reasoning { text: string(&item, "thinking"), native: native(item) }),
        "tool_use" => {
            let (id, name) = (string(&item, "id"), string(&item, "name"));
            match item.get("input") {
                Some(Value::Object(_)) | None if item.len() <= 4 => {
                    let args = item.remove("input").unwrap_or_else(|| Value::Object(Map::new()));
                    Block::call(id, name, args)
                }
                Some(args @ Value::Object(_)) => {
                    Block::ToolCall(ToolCall { id, name, args: args.clone(), native: native(item) })
                }
                other => match other.and_then(exact::read) {
                    Some(args) => Block::ToolCall(ToolCall { id, name, args, native: native(item) }),
                    None => {
                        let raw = other.map(Value::to_string).unwrap_or_default();
                        invalid(item, raw, "the arguments are not an object".to_owned())
                    }
                },
            }
        }
        _ => Block::ProviderItem(ProviderBlock { native: ProviderItem::new(Value::Object(item)) }),
    }
}

/// Converts a content item whose `input` arrived as text.
pub(super) fn block_with_json(mut item: Map<String, Value>, json: &str) -> Block {
    let is_call = item.get("type").is_some_and(|kind| kind == "tool_use");
    match args::parse(json) {
        Ok(input) => {
            // Without any text, the start of the item already contains the input.
            let has_input = item.get("input").is_some_and(|input| input.is_object() || exact::read(input).is_some());
            if !json.trim().is_empty() || !has_input {
                item.insert("input".to_owned(), exact::kept(json, &input).0);
            }
            block(item)
        }
        Err(error) if is_call => invalid(item, json.to_owned(), error),
        Err(_) => block(item),
    }
}

/// Marks the last call as cut off if it has no arguments, because the token limit ended the response there.
pub(super) fn mark_cut(content: &mut [Block]) {
    if let Some(last) = content.last_mut()
        && let Block::ToolCall(call) = last
        && call.args.as_object().is_some_and(Map::is_empty)
    {
        *last = Block::InvalidToolCall(InvalidToolCall {
            id: std::mem::take(&mut call.id),
            name: std::mem::take(&mut call.name),
            raw: String::new(),
            error: args::CUT_OFF.to_owned(),
            native: call.native.take(),
        });
    }
}

/// Creates an invalid call. Keeps the item if it contains more than the usual fields, with an object in place of input
/// that the API would reject.
fn invalid(mut item: Map<String, Value>, raw: String, error: String) -> Block {
    let (id, name) = (string(&item, "id"), string(&item, "name"));
    item.insert("input".to_owned(), Value::Object(Map::new()));
    let native = if item.len() > 4 && !name.is_empty() { native(item) } else { None };
    Block::InvalidToolCall(InvalidToolCall { id, name, raw, error, native })
}

fn native(item: Map<String, Value>) -> Option<ProviderItem> {
    Some(ProviderItem::new(Value::Object(item)))
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

pub(super) fn string(item: &Map<String, Value>, key: &str) -> String {
    item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
