//! Makes and reads blocks.

use deepagents_core::message::{Block, InvalidToolCall, Media, ProviderBlock, ProviderItem, ToolCall};
use serde_json::{Map, Value};

use crate::args::InvalidArgs;

/// Stores a provider's own item.
pub(crate) fn native(item: Map<String, Value>) -> Option<ProviderItem> {
    Some(ProviderItem::new(Value::Object(item)))
}

/// Creates the block of an item that only its provider understands.
pub(crate) fn provider_item(item: Value) -> Block {
    Block::ProviderItem(ProviderBlock { native: ProviderItem::new(item) })
}

/// Creates a call, which is invalid if its arguments are.
pub(crate) fn call(id: String, name: String, args: Result<Value, InvalidArgs>, native: Option<ProviderItem>) -> Block {
    match args {
        Ok(args) => Block::ToolCall(ToolCall { id, name, args, native }),
        Err(InvalidArgs { raw, error }) => Block::InvalidToolCall(InvalidToolCall { id, name, raw, error, native }),
    }
}

/// Creates an ID for a call without one, always the same for the same response.
pub(crate) fn generated_id(answer: &str, index: usize) -> String {
    let answer: String = answer.chars().filter(char::is_ascii_alphanumeric).collect();
    if answer.is_empty() { format!("call_{index}") } else { format!("call_{answer}_{index}") }
}

/// Returns the ID and the name of a call, valid or not.
pub(crate) fn as_call(block: &Block) -> Option<(&str, &str)> {
    match block {
        Block::ToolCall(call) => Some((&call.id, &call.name)),
        Block::InvalidToolCall(call) => Some((&call.id, &call.name)),
        _ => None,
    }
}

/// Returns whether there is a call, valid or not.
pub(crate) fn has_calls(content: &[Block]) -> bool {
    content.iter().any(|block| as_call(block).is_some())
}

/// Iterates over the media.
pub(crate) fn media(content: &[Block]) -> impl Iterator<Item = &Media> {
    content.iter().filter_map(|block| if let Block::Media(media) = block { Some(media) } else { None })
}
