//! Redaction of messages.

use deepagents_core::message::{Block, Message};
use serde_json::Value;

use super::rules::Rules;
use super::span::Found;
use crate::blocked::RedactionBlocked;

/// Returns the approximate size in bytes of the text in blocks.
pub(super) fn bytes_of(blocks: &[Block]) -> usize {
    let bytes = |block: &Block| match block {
        Block::Text(text) => text.text.len(),
        Block::Reasoning(thought) => thought.text.len(),
        Block::ToolCall(call) => bytes_of_value(&call.args),
        Block::InvalidToolCall(call) => call.raw.len(),
        Block::ProviderItem(item) => bytes_of_value(item.native.value()),
        _ => 0,
    };
    blocks.iter().map(bytes).sum()
}

/// Returns the approximate size in bytes of the text in a value.
pub(super) fn bytes_of_value(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes_of_value).sum(),
        Value::Object(fields) => fields.iter().map(|(name, field)| name.len() + bytes_of_value(field)).sum(),
        _ => 8,
    }
}

/// Redacts blocks and returns whether anything changed. The provider's own data of a changed block contains the same
/// text and is dropped.
///
/// # Errors
/// Returns an error if a rule blocks a match.
pub(super) fn redact_blocks(blocks: &mut [Block], rules: &Rules, found: &mut Found) -> Result<bool, RedactionBlocked> {
    let mut changed = false;
    for block in blocks {
        changed |= match block {
            Block::Text(text) => without_native(redact_text(&mut text.text, rules, found)?, &mut text.native),
            Block::Reasoning(thought) => {
                without_native(redact_text(&mut thought.text, rules, found)?, &mut thought.native)
            }
            Block::ToolCall(call) => without_native(rules.redact_value(&mut call.args, found)?, &mut call.native),
            Block::InvalidToolCall(call) => without_native(redact_text(&mut call.raw, rules, found)?, &mut call.native),
            Block::ProviderItem(item) => rules.redact_value(&mut item.native.0, found)?,
            _ => false,
        };
    }
    Ok(changed)
}

/// Drops the provider's own data of a block if the block has changed.
fn without_native<T>(changed: bool, native: &mut Option<T>) -> bool {
    if changed {
        *native = None;
    }
    changed
}

fn redact_text(text: &mut String, rules: &Rules, found: &mut Found) -> Result<bool, RedactionBlocked> {
    let redacted = rules.redact(text, found)?;
    let changed = redacted.is_some();
    if let Some(redacted) = redacted {
        *text = redacted;
    }
    Ok(changed)
}

/// Redacts a message.
///
/// # Errors
/// Returns an error if a rule blocks a match.
pub(super) fn redact_message(
    message: &mut Message,
    rules: &Rules,
    found: &mut Found,
) -> Result<bool, RedactionBlocked> {
    match message {
        Message::User(said) => {
            let changed = redact_blocks(&mut said.content, rules, found)?;
            // The sender's own data may contain the same text.
            let kept = said.as_sent.as_mut().map(|kept| rules.redact_value(kept, found));
            Ok(kept.transpose()?.unwrap_or_default() || changed)
        }
        Message::Assistant(answer) => redact_blocks(&mut answer.content, rules, found),
        Message::Tool(result) => {
            let changed = redact_blocks(&mut result.content, rules, found)?;
            Ok(match &mut result.artifact {
                Some(artifact) => rules.redact_value(artifact, found)? || changed,
                None => changed,
            })
        }
        _ => Ok(false),
    }
}
