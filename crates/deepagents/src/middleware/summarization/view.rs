//! From the thread and what has been done to its view, to what the model is shown.

use std::sync::Arc;

use deepagents_core::message::{AssistantMessage, Block, HistoryVersion, Message, Messages, Text};
use serde_json::Value;

use super::event::CompactionState;
use super::options::SettledArgs;

/// Tools whose long arguments are cut: what they wrote is in a file.
const WRITERS: [&str; 3] = ["write_file", "edit_file", "apply_patch"];
/// Characters left of an argument that is cut.
const LEFT: usize = 20;
/// Fields of the provider's own items that hold content bound to what came before it.
const BOUND: [&str; 4] = ["thinking", "redacted_thinking", "reasoning", "reasoning_content"];

/// How single messages are shown.
pub(super) struct Lens<'a> {
    state: &'a CompactionState,
    args: Option<&'a SettledArgs>,
    /// Where the part that stays begins.
    pub(super) base: usize,
    /// Whether the summary of the state stands before it.
    pub(super) summarised: bool,
    /// Calls before this have their long arguments cut.
    pub(super) truncated_before: usize,
}

impl<'a> Lens<'a> {
    pub(super) fn new(state: &'a CompactionState, thread: &Messages, args: Option<&'a SettledArgs>) -> Self {
        // A thread that was replaced as a whole has nothing to do with its old summary.
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

    /// What comes before the part that stays.
    pub(super) fn head(&self) -> impl Iterator<Item = &'a Arc<Message>> {
        let last = self.state.last.as_ref().filter(|_| self.summarised);
        last.into_iter().flat_map(|last| std::iter::once(&last.message).chain(&last.pinned))
    }

    /// A message at its position in the thread, as it is shown.
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
            Message::Tool(result) => match self.state.clipped.get(&result.id) {
                Some(shown) => {
                    let mut result = result.clone();
                    result.content.retain(|block| !matches!(block, Block::Text(_)));
                    result.content.insert(0, Block::Text(Text { text: shown.to_string(), native: None }));
                    Arc::new(Message::Tool(result))
                }
                None => message.clone(),
            },
            _ => message.clone(),
        }
    }
}

/// Views made before, so that a step costs what it adds.
#[derive(Default)]
pub(super) struct ViewCache {
    events: u64,
    mark: Option<HistoryVersion>,
    view: Messages,
}

impl ViewCache {
    /// What the model is shown of a thread.
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
            // What is added after a change of the view is shown as it is.
            known => thread.tail(known).for_each(|message| self.view.put(message.clone())),
        }
        self.events = state.events;
        self.mark = Some(thread.mark());
        self.view.clone()
    }
}

/// Whether a call has arguments that would be cut.
pub(super) fn has_long_args(answer: &AssistantMessage, args: &SettledArgs) -> bool {
    answer.tool_calls().filter(|call| WRITERS.contains(&call.name.as_str())).any(|call| has_long_text(&call.args, args))
}

/// Whether a value holds a text, at any depth, that would be cut. Arguments are nested 64 levels deep at most.
fn has_long_text(value: &Value, args: &SettledArgs) -> bool {
    match value {
        Value::String(text) => is_long(text, args),
        Value::Array(items) => items.iter().any(|item| has_long_text(item, args)),
        Value::Object(fields) => fields.values().any(|field| has_long_text(field, args)),
        _ => false,
    }
}

/// Cuts the long texts of a value at every depth; says whether there were any.
fn cut_long_texts(value: &mut Value, args: &SettledArgs) -> bool {
    match value {
        Value::String(text) if is_long(text, args) => {
            *text = text.chars().take(LEFT).chain(args.text.chars()).collect();
            true
        }
        // All of them, not only the first.
        Value::Array(items) => items.iter_mut().filter_map(|item| cut_long_texts(item, args).then_some(())).count() > 0,
        Value::Object(fields) => {
            fields.values_mut().filter_map(|field| cut_long_texts(field, args).then_some(())).count() > 0
        }
        _ => false,
    }
}

fn is_long(text: &str, args: &SettledArgs) -> bool {
    // Bytes are an upper bound of characters.
    text.len() > args.max_length && text.chars().count() > args.max_length
}

fn truncate_args(answer: &mut AssistantMessage, args: &SettledArgs) {
    for block in &mut answer.content {
        let Block::ToolCall(call) = block else { continue };
        if !WRITERS.contains(&call.name.as_str()) {
            continue;
        }
        if cut_long_texts(&mut call.args, args) {
            // The provider's own item still has the long argument.
            call.native = None;
        }
    }
}

/// Whether the provider of an answer ties the model's thoughts to the messages before them.
fn binds(answer: &AssistantMessage) -> bool {
    answer.origin.as_ref().is_none_or(|origin| {
        let of = |word| origin.api.contains(word) || origin.provider.contains(word);
        of("anthropic") || (of("bedrock") && origin.model.contains("claude"))
    })
}

/// Whether a block is a model's thought.
fn is_bound(block: &Block) -> bool {
    match block {
        Block::Reasoning(_) => true,
        Block::ProviderItem(item) => {
            item.native.value().get("type").and_then(Value::as_str).is_some_and(|kind| BOUND.contains(&kind))
        }
        _ => false,
    }
}
