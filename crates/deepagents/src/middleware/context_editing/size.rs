//! How many tokens a conversation has.

use std::collections::BTreeSet;

use deepagents_core::message::{Block, Messages};

use crate::channels::ShownPart;
use crate::tokens::estimate;

/// Tokens of a medium, about.
const MEDIUM: u64 = 1_500;

/// What a provider counted for the last request and answer, and an estimate of what came since; an estimate of all that is
/// shown where nobody counted that. Results that are cleared count nothing.
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
