//! How many tokens a conversation has.

use std::collections::BTreeSet;

use deepagents_core::message::{Block, Messages};

use crate::tokens::estimate;

/// Tokens of a medium, about.
const MEDIUM: u64 = 1_500;

/// What a provider counted for the last request and answer, and an estimate of what came since; an estimate of all where
/// nobody counted. Results that are cleared count nothing.
pub(super) fn tokens(messages: &Messages, cleared: &BTreeSet<String>) -> u64 {
    let counted = messages.last_assistant().and_then(|at| Some((at, messages.get(at)?.as_assistant()?.usage?)));
    let (from, before) = match counted.map(|(at, usage)| (at + 1, usage.total())) {
        Some((from, total)) if total > 0 => (from, total),
        _ => (0, 0),
    };
    let since = messages.tail(from).filter(|message| !cleared.contains(message.id()));
    before + since.map(|message| weight(message.content())).sum::<u64>()
}

/// Tokens of blocks, about.
pub(super) fn weight(blocks: &[Block]) -> u64 {
    let one = |block: &Block| match block {
        Block::Text(text) => estimate(&text.text),
        Block::Reasoning(thought) => estimate(&thought.text),
        Block::ToolCall(call) => estimate(&call.name) + estimate(&call.args.to_string()),
        Block::Media(_) => MEDIUM,
        _ => 0,
    };
    blocks.iter().map(one).sum()
}
