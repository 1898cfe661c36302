//! Encodes assistant messages to be sent back to the service.

use std::borrow::Cow;

use deepagents_core::message::Block;
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::Value;

use super::call_id::conform;
use super::decode::SOURCES;
use super::dialect::{Dialect, ReasoningForm};
use super::items::{Content, Part};
use super::part::thinking_item;
use crate::body::{TextPart, joined, own_item, wire_name};

/// An assistant message to be sent back to the service.
#[derive(Serialize)]
pub(super) struct Assistant<'a> {
    role: &'static str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audio: Option<AudioId<'a>>,
    /// What only the service itself understands: reasoning, and unknown fields.
    #[serde(flatten)]
    own: OwnFields<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

impl<'a> Assistant<'a> {
    /// Creates the message if it has content; `own` says whether it came from this service.
    pub(super) fn new(blocks: &'a [Block], own: bool, dialect: &'a Dialect) -> Option<Self> {
        let says_something = blocks.iter().any(|block| match block {
            Block::Text(text) => !text.text.is_empty(),
            Block::ToolCall(_) | Block::InvalidToolCall(_) => true,
            Block::Reasoning(_) => own && dialect.reasoning != ReasoningForm::Hidden,
            _ => false,
        });
        if !says_something {
            return None;
        }
        let says = |block: &Block, key: &str| own && block.native().is_some_and(|item| item.value().get(key).is_some());
        let refusal = |block: &&Block| says(block, "refusal");
        let audio = blocks.iter().filter(|block| own && block.as_text().is_some()).find_map(audio_id);
        let is_told = |block: &&Block| refusal(block) || (audio.is_some() && says(block, "audio"));
        let in_place = own
            && dialect.reasoning == ReasoningForm::Content
            && blocks.iter().any(|block| matches!(block, Block::Reasoning(_)) || content_item(block).is_some());
        let tool_calls: Vec<_> = blocks.iter().filter_map(|block| call(block, own, dialect)).collect();
        let texts = blocks.iter().filter(|b| b.as_text().is_some_and(|text| !text.is_empty()) && !is_told(b));
        let text = joined(texts);
        let refusal = blocks.iter().filter(refusal).find_map(Block::as_text);
        let content = match text {
            _ if in_place => Content::Parts(blocks.iter().filter_map(part).collect()),
            text if text.is_empty() && (refusal.is_some() || audio.is_some() || !tool_calls.is_empty()) => {
                Content::Null
            }
            text => Content::Text(text),
        };
        let own = match (own, dialect.reasoning, dialect.missing_reasoning) {
            (true, ..) => own_fields(blocks, dialect),
            (false, ReasoningForm::Field(field), Some(thought)) if !tool_calls.is_empty() => {
                OwnFields(vec![(field, OwnField::Text(thought))])
            }
            _ => OwnFields(Vec::new()),
        };
        Some(Self { role: "assistant", content, refusal, audio, own, tool_calls })
    }
}

/// Audio output is sent back by its ID.
#[derive(Serialize)]
struct AudioId<'a> {
    id: &'a str,
}

fn audio_id(block: &Block) -> Option<AudioId<'_>> {
    let id = block.native()?.value().get("audio")?.get("id")?.as_str()?;
    Some(AudioId { id })
}

/// Returns an item of a content array that only the service understands.
fn content_item(block: &Block) -> Option<&Value> {
    match block {
        Block::ProviderItem(opaque) => Some(opaque.native.value()).filter(|item| item.get("type").is_some()),
        _ => None,
    }
}

/// Converts a block to an item of a content array.
fn part(block: &Block) -> Option<Part<'_>> {
    match block {
        Block::Text(text) if !text.text.is_empty() => Some(Part::Text(TextPart::new(&text.text, None))),
        // Only messages of this service have parts.
        Block::Reasoning(thought) => Some(Part::Verbatim(match own_item(block, true) {
            Some(native) => Cow::Borrowed(native),
            None => Cow::Owned(thinking_item(&thought.text)),
        })),
        _ => content_item(block).map(|item| Part::Verbatim(Cow::Borrowed(item))),
    }
}

struct OwnFields<'a>(Vec<(&'a str, OwnField<'a>)>);

#[derive(Serialize)]
#[serde(untagged)]
enum OwnField<'a> {
    Text(&'a str),
    Verbatim(&'a Value),
}

impl Serialize for OwnFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

fn own_fields<'a>(blocks: &'a [Block], dialect: &Dialect) -> OwnFields<'a> {
    let mut fields = Vec::new();
    let verbatim = |value: &'a Value| {
        let object = value.as_object().into_iter().flatten();
        object.map(|(name, value)| (name.as_str(), OwnField::Verbatim(value)))
    };
    let thought = blocks.iter().find_map(|block| if let Block::Reasoning(b) = block { Some((block, b)) } else { None });
    if let (Some((block, thought)), ReasoningForm::Field(field)) = (thought, dialect.reasoning) {
        match own_item(block, true) {
            Some(native) if native.is_object() => fields.extend(verbatim(native)),
            _ => fields.push((field, OwnField::Text(&thought.text))),
        }
    }
    for block in blocks.iter().filter(|_| dialect.unknown_fields) {
        if let (Block::ProviderItem(opaque), None) = (block, content_item(block)) {
            // Sources are sent beside the message and are not part of it.
            fields.extend(verbatim(opaque.native.value()).filter(|(name, _)| !SOURCES.contains(name)));
        }
    }
    OwnFields(fields)
}

#[derive(Serialize)]
#[serde(untagged)]
enum Call<'a> {
    Verbatim(&'a Value),
    Made { id: Cow<'a, str>, r#type: &'static str, function: Function<'a> },
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    arguments: Arguments<'a>,
}

/// Arguments are sent as JSON inside a string.
enum Arguments<'a> {
    Value(&'a Value),
    Raw(&'a str),
}

impl Serialize for Arguments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(args) => serializer.collect_str(args),
            Self::Raw(raw) => serializer.serialize_str(raw),
        }
    }
}

fn call<'a>(block: &'a Block, own: bool, dialect: &Dialect) -> Option<Call<'a>> {
    let made = |id, name: &'a str, arguments| {
        let id = provider_call_id(id, own, dialect);
        Some(Call::Made { id, r#type: "function", function: Function { name: wire_name(name), arguments } })
    };
    match block {
        Block::ToolCall(_) | Block::InvalidToolCall(_) if own_item(block, own).is_some() => {
            own_item(block, own).map(Call::Verbatim)
        }
        Block::ToolCall(call) => made(&call.id, &call.name, Arguments::Value(&call.args)),
        Block::InvalidToolCall(call) => {
            let raw = if own && dialect.malformed_arguments { call.raw.as_str() } else { "{}" };
            made(&call.id, &call.name, Arguments::Raw(raw))
        }
        _ => None,
    }
}

/// Returns the call ID to send: unchanged if the service created it, otherwise converted to its format.
pub(super) fn provider_call_id<'a>(id: &'a str, own: bool, dialect: &Dialect) -> Cow<'a, str> {
    if own { Cow::Borrowed(id) } else { conform(dialect.call_ids, id) }
}
