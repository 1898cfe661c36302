//! Counts the tokens of a conversation.

use std::collections::BTreeSet;

use deepagents_core::message::{Block, Messages};

use crate::channels::ShownPart;
use crate::tokens::estimate;

/// Estimated number of tokens of a medium.
const MEDIUM_TOKENS: u64 = 1_500;

/// Returns the provider's count for the last request and answer plus an estimate of what was added since. Without such
/// a count, returns an estimate of everything that is sent. Cleared results count as nothing.
pub(super) fn tokens(messages: &Messages, shown: ShownPart, cleared: &BTreeSet<String>) -> u64 {
    let last = messages.last_assistant().filter(|at| *at >= shown.counted_from);
    let counted = last.and_then(|at| Some((at, messages.get(at)?.as_assistant()?.usage?)));
    let (from, before) = match counted.map(|(at, usage)| (at + 1, usage.total())) {
        Some((from, total)) if total > 0 => (from, total),
        _ => (shown.from, 0),
    };
    let since = messages.tail(from).filter(|message| !cleared.contains(message.id()));
    before + since.map(|message| weight(message.content())).sum::<u64>()
}

/// Estimates the number of tokens of blocks.
pub(super) fn weight(blocks: &[Block]) -> u64 {
    let one = |block: &Block| match block {
        Block::Text(text) => estimate(&text.text),
        Block::Reasoning(thought) => estimate(&thought.text),
        Block::ToolCall(call) => estimate(&call.name) + estimate(&call.args.to_string()),
        Block::Media(_) => MEDIUM_TOKENS,
        _ => 0,
    };
    blocks.iter().map(one).sum()
}
