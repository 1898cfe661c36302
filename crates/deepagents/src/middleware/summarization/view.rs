//! Computes what the model is shown from the thread and the changes to its view.

use std::sync::Arc;

use deepagents_core::message::{AssistantMessage, Block, HistoryVersion, Message, Messages, Text};
use serde_json::Value;

use super::event::CompactionState;
use super::options::SettledArgs;
use crate::artifacts;

/// Tools whose long arguments are truncated, because what they wrote is in a file.
const WRITERS: [&str; 3] = ["write_file", "edit_file", "apply_patch"];
/// Number of characters to keep of a truncated argument.
const LEFT: usize = 20;
/// Types of provider items whose content is bound to the preceding messages.
const BOUND: [&str; 4] = ["thinking", "redacted_thinking", "reasoning", "reasoning_content"];

/// Defines how single messages are shown.
pub(super) struct Lens<'a> {
    state: &'a CompactionState,
    args: Option<&'a SettledArgs>,
    /// The index of the first message that is kept.
    pub(super) base: usize,
    /// Whether the summary in the state precedes it.
    pub(super) summarised: bool,
    /// Calls before this index have their long arguments truncated.
    pub(super) truncated_before: usize,
}

impl<'a> Lens<'a> {
    pub(super) fn new(state: &'a CompactionState, thread: &Messages, args: Option<&'a SettledArgs>) -> Self {
        // If the whole thread was replaced, its old summary no longer applies.
        let base = state.last.as_ref().and_then(|last| last.cut.find(thread));
        let truncated = state.truncated_before.as_ref().filter(|_| args.is_some()).and_then(|place| place.find(thread));
        Self {
            state,
            args,
            base: base.unwrap_or(0),
            summarised: base.is_some(),
            truncated_before: truncated.unwrap_or(0),
        }
    }

    /// Returns the messages before the part that is kept.
    pub(super) fn head(&self) -> impl Iterator<Item = &'a Arc<Message>> {
        let last = self.state.last.as_ref().filter(|_| self.summarised);
        last.into_iter().flat_map(|last| std::iter::once(&last.message).chain(&last.pinned))
    }

    /// Returns a message of the thread as it is shown.
    pub(super) fn show(&self, message: &Arc<Message>, index: usize) -> Arc<Message> {
        match &**message {
            Message::Assistant(answer) => {
                let truncate = self.args.filter(|args| index < self.truncated_before && has_long_args(answer, args));
                let before = self.summarised && self.state.last.as_ref().is_some_and(|last| index < last.made_at);
                let unbind = before && binds(answer) && answer.content.iter().any(is_bound);
                if truncate.is_none() && !unbind {
                    return message.clone();
                }
                let mut answer = answer.clone();
                if let Some(args) = truncate {
                    truncate_args(&mut answer, args);
                }
                if unbind {
                    answer.content.retain(|block| !is_bound(block));
                    if answer.content.is_empty() {
                        return message.clone();
                    }
                }
                Arc::new(Message::Assistant(answer))
            }
            Message::Tool(result) if self.state.shortens(&result.id) => {
                let mut result = result.clone();
                if let Some(shown) = self.state.clipped.get(&result.id) {
                    result.content.retain(|block| !matches!(block, Block::Text(_)));
                    result.content.insert(0, Block::Text(Text { text: shown.to_string(), native: None }));
                }
                let mut texts = self.state.replaced_media.get(&result.id).into_iter().flatten();
                for block in result.content.iter_mut().filter(|block| is_inline(block)) {
                    let Some(text) = texts.next() else { break };
                    *block = Block::text(text.to_string());
                }
                Arc::new(Message::Tool(result))
            }
            _ => message.clone(),
        }
    }
}

/// Returns `true` for a medium whose data is in the message.
pub(super) fn is_inline(block: &Block) -> bool {
    matches!(block, Block::Media(media) if artifacts::inline_data(media).is_some())
}

/// Caches the view, so that a step costs only what it adds.
#[derive(Default)]
pub(super) struct ViewCache {
    events: u64,
    mark: Option<HistoryVersion>,
    view: Messages,
}

impl ViewCache {
    /// Returns what the model is shown of a thread.
    pub(super) fn view(&mut self, thread: &Messages, state: &CompactionState, args: Option<&SettledArgs>) -> Messages {
        if state.is_plain() {
            return thread.clone();
        }
        let mark = self.mark.as_ref().filter(|_| self.events == state.events);
        match mark.map_or(0, |mark| thread.shared_with(mark)) {
            0 => {
                let lens = Lens::new(state, thread, args);
                let shown = (lens.base..).zip(thread.tail(lens.base)).map(|(index, m)| lens.show(m, index));
                self.view = lens.head().cloned().chain(shown).collect();
            }
            // Messages added after the last change of the view are shown unchanged.
            known => thread.tail(known).for_each(|message| self.view.put(message.clone())),
        }
        self.events = state.events;
        self.mark = Some(thread.mark());
        self.view.clone()
    }
}

/// Returns `true` if a call has arguments to truncate.
pub(super) fn has_long_args(answer: &AssistantMessage, args: &SettledArgs) -> bool {
    answer.tool_calls().filter(|call| WRITERS.contains(&call.name.as_str())).any(|call| has_long_text(&call.args, args))
}

/// Returns `true` if a value contains a string to truncate, at any depth. Arguments are nested at most 64 levels deep.
fn has_long_text(value: &Value, args: &SettledArgs) -> bool {
    match value {
        Value::String(text) => is_long(text, args),
        Value::Array(items) => items.iter().any(|item| has_long_text(item, args)),
        Value::Object(fields) => fields.values().any(|field| has_long_text(field, args)),
        _ => false,
    }
}

/// Truncates the long strings of a value at any depth, and returns whether there were any.
fn cut_long_texts(value: &mut Value, args: &SettledArgs) -> bool {
    match value {
        Value::String(text) if is_long(text, args) => {
            *text = text.chars().take(LEFT).chain(args.text.chars()).collect();
            true
        }
        // `any` would stop at the first.
        Value::Array(items) => items.iter_mut().fold(false, |cut, item| cut | cut_long_texts(item, args)),
        Value::Object(fields) => fields.values_mut().fold(false, |cut, field| cut | cut_long_texts(field, args)),
        _ => false,
    }
}

fn is_long(text: &str, args: &SettledArgs) -> bool {
    // The number of bytes is an upper bound for that of characters.
    text.len() > args.max_length && text.chars().count() > args.max_length
}

fn truncate_args(answer: &mut AssistantMessage, args: &SettledArgs) {
    for block in &mut answer.content {
        if let Block::ToolCall(call) = block
            && WRITERS.contains(&call.name.as_str())
            && cut_long_texts(&mut call.args, args)
        {
            // The provider's own item still contains the long argument.
            call.native = None;
        }
    }
}

/// Returns `true` if the provider of an answer binds reasoning to the preceding messages.
fn binds(answer: &AssistantMessage) -> bool {
    answer.origin.as_ref().is_none_or(|origin| {
        let of = |word| origin.api.contains(word) || origin.provider.contains(word);
        of("anthropic") || (of("bedrock") && origin.model.contains("claude"))
    })
}

/// Returns `true` for a reasoning block.
fn is_bound(block: &Block) -> bool {
    match block {
        Block::Reasoning(_) => true,
        Block::ProviderItem(item) => {
            item.native.value().get("type").and_then(Value::as_str).is_some_and(|kind| BOUND.contains(&kind))
        }
        _ => false,
    }
}
