//! Output items of the Responses API as blocks.

use deepagents_core::message::{Block, InvalidToolCall, ProviderBlock, ProviderItem, Reasoning, Text, ToolCall};
use serde_json::{Map, Value};

use crate::args;

/// A field's text.
pub(super) fn text<'a>(item: &'a Map<String, Value>, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// What an item is for the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    Reasoning,
    Call,
    /// A server's tool, or something that came to be later.
    Other,
}

impl Kind {
    pub(super) fn new(item: &Map<String, Value>) -> Self {
        match text(item, "type") {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Call,
            _ => Self::Other,
        }
    }
}

/// A whole item as a block; `was_cut` says that the answer's token limit was reached.
pub(super) fn block(item: Map<String, Value>, was_cut: bool) -> Block {
    match Kind::new(&item) {
        Kind::Message => Block::Text(Text { text: words(&item, "content"), native: native(item) }),
        Kind::Reasoning => {
            let summary = words(&item, "summary");
            let text = if summary.is_empty() { words(&item, "content") } else { summary };
            Block::Reasoning(Reasoning { text, native: native(item) })
        }
        Kind::Call => call(item, was_cut),
        Kind::Other => Block::ProviderItem(ProviderBlock { native: ProviderItem::new(Value::Object(item)) }),
    }
}

fn native(item: Map<String, Value>) -> Option<ProviderItem> {
    Some(ProviderItem::new(Value::Object(item)))
}

/// The texts of an item's parts. Sections of a summary are paragraphs of their own.
fn words(item: &Map<String, Value>, field: &str) -> String {
    let parts = item.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    let texts = parts.map(|part| if part.contains_key("refusal") { text(part, "refusal") } else { text(part, "text") });
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(if field == "summary" { "\n\n" } else { "" })
}

/// Whether a message declines.
pub(super) fn is_refusal(item: &Map<String, Value>) -> bool {
    let parts = item.get("content").and_then(Value::as_array).into_iter().flatten();
    parts.into_iter().any(|part| part.get("type").is_some_and(|kind| kind == "refusal"))
}

fn call(item: Map<String, Value>, was_cut: bool) -> Block {
    let (id, name, raw) =
        (text(&item, "call_id").to_owned(), text(&item, "name").to_owned(), text(&item, "arguments").to_owned());
    let cut = was_cut && (raw.trim().is_empty() || text(&item, "status") == "incomplete");
    match args::parse(&raw) {
        Ok(args) if !cut => Block::ToolCall(ToolCall { id, name, args, native: native(item) }),
        Ok(_) => {
            let error = args::CUT_OFF.to_owned();
            Block::InvalidToolCall(InvalidToolCall { id, name, raw, error, native: native(item) })
        }
        Err(error) => Block::InvalidToolCall(InvalidToolCall { id, name, raw, error, native: native(item) }),
    }
}
