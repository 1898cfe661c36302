//! Converts content items of the Messages API to blocks.

use deepagents_core::message::{Block, Reasoning, Text};
use serde_json::{Map, Value};

use crate::args::{self, InvalidArgs};
use crate::blocks::{self, native, provider_item};
use crate::exact;
use crate::json::{is_empty, text};

/// Converts a complete content item. Keeps the item itself only if the block does not represent everything.
pub(super) fn block(mut item: Map<String, Value>) -> Block {
    match text(item.get("type")) {
        "text" => {
            if item.get("citations").is_some_and(is_empty) {
                item.remove("citations");
            }
            match (item.len(), item.get_mut("text")) {
                (2, Some(Value::String(text))) => Block::text(std::mem::take(text)),
                _ => Block::Text(Text { text: text(item.get("text")).to_owned(), native: native(item) }),
            }
        }
        "thinking" => Block::Reasoning(Reasoning { text: text(item.get("thinking")).to_owned(), native: native(item) }),
        "tool_use" => {
            // Some gateways omit an empty input, which the API requires.
            let is_object = item.entry("input").or_insert_with(|| Value::Object(Map::new())).is_object();
            if is_object && item.len() <= 4 {
                let [id, name] = id_and_name(&item);
                return Block::call(id, name, item.remove("input").unwrap_or_default());
            }
            match args::from_field(item.get("input")) {
                Err(args) => invalid(item, args),
                args => {
                    let [id, name] = id_and_name(&item);
                    blocks::call(id, name, args, native(item))
                }
            }
        }
        _ => provider_item(Value::Object(item)),
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
                item.insert("input".to_owned(), exact::verbatim(json, &input).unwrap_or(input));
            }
            block(item)
        }
        Err(error) if is_call => invalid(item, InvalidArgs { raw: json.to_owned(), error }),
        Err(_) => block(item),
    }
}

/// Marks the last call as cut off if it has no arguments, because the token limit ended the response there.
pub(super) fn mark_cut(content: &mut [Block]) {
    if let Some(last) = content.last_mut()
        && let Block::ToolCall(call) = last
        && call.args.as_object().is_some_and(Map::is_empty)
    {
        let [id, name] = [&mut call.id, &mut call.name].map(std::mem::take);
        let args = InvalidArgs { raw: String::new(), error: args::CUT_OFF.to_owned() };
        *last = blocks::call(id, name, Err(args), call.native.take());
    }
}

/// Creates an invalid call. Keeps the item if it contains more than the usual fields, with an object in place of input
/// that the API would reject.
fn invalid(mut item: Map<String, Value>, args: InvalidArgs) -> Block {
    let [id, name] = id_and_name(&item);
    item.insert("input".to_owned(), Value::Object(Map::new()));
    let native = if item.len() > 4 && !name.is_empty() { native(item) } else { None };
    blocks::call(id, name, Err(args), native)
}

fn id_and_name(item: &Map<String, Value>) -> [String; 2] {
    ["id", "name"].map(|key| text(item.get(key)).to_owned())
}
