//! What the model said, as the service takes it back.

use std::borrow::Cow;

use deepagents_core::message::Block;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use super::call_id::conform;
use super::dialect::{Dialect, ReasoningForm};
use super::items::TextPart;
use super::part::thinking_item;

/// What the model said, as the service takes it back.
pub(super) struct Said<'a> {
    pub(super) content: &'a [Block],
    /// Whether this service said it.
    pub(super) own: bool,
    pub(super) dialect: &'a Dialect,
}

impl Said<'_> {
    /// A text that the model gave as a refusal, if it was this service's.
    fn refusal<'b>(&self, block: &'b Block) -> Option<&'b str> {
        let Block::Text(text) = block else { return None };
        let native = text.native.as_ref().filter(|_| self.own)?;
        native.value().get("refusal").is_some().then_some(&text.text)
    }

    /// Writes everything but the role.
    pub(super) fn put<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let in_place = self.own
            && self.dialect.reasoning == ReasoningForm::Content
            && self.content.iter().any(|block| matches!(block, Block::Reasoning(_)) || content_item(block).is_some());
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter(|block| self.refusal(block).is_none())
            .filter_map(Block::as_text)
            .filter(|text| !text.is_empty())
            .collect();
        let refusal = self.content.iter().find_map(|block| self.refusal(block));
        let has_calls = self.content.iter().any(|b| matches!(b, Block::ToolCall(_) | Block::InvalidToolCall(_)));
        match texts.as_slice() {
            _ if in_place => map.serialize_entry("content", &ContentItems(self.content))?,
            [] if has_calls || refusal.is_some() => map.serialize_entry("content", &())?,
            [] => map.serialize_entry("content", "")?,
            [text] => map.serialize_entry("content", text)?,
            texts => map.serialize_entry("content", &texts.join("\n"))?,
        }
        if let Some(refusal) = refusal {
            map.serialize_entry("refusal", refusal)?;
        }
        if self.own {
            self.put_own(map)?;
        }
        if has_calls {
            map.serialize_entry("tool_calls", &Calls { content: self.content, own: self.own, dialect: self.dialect })?;
        }
        Ok(())
    }

    /// What only the service itself understands: reasoning, and fields that we do not know.
    fn put_own<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let thought = self.content.iter().find_map(|b| if let Block::Reasoning(b) = b { Some(b) } else { None });
        if let (Some(thought), ReasoningForm::Field(field)) = (thought, self.dialect.reasoning) {
            match thought.native.as_ref().and_then(|native| native.value().as_object()) {
                Some(fields) => fields.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?,
                None => map.serialize_entry(field, &thought.text)?,
            }
        }
        for block in self.content.iter().filter(|_| self.dialect.unknown_fields) {
            if let (Block::Opaque(opaque), None) = (block, content_item(block)) {
                let fields = opaque.native.value().as_object();
                fields.into_iter().flatten().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
            }
        }
        Ok(())
    }
}

/// An item of a content array that only the service understands.
fn content_item(block: &Block) -> Option<&Value> {
    match block {
        Block::Opaque(opaque) => Some(opaque.native.value()).filter(|item| item.get("type").is_some()),
        _ => None,
    }
}

struct ContentItems<'a>(&'a [Block]);

impl Serialize for ContentItems<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for block in self.0 {
            match (block, content_item(block)) {
                (_, Some(item)) => list.serialize_element(item)?,
                (Block::Text(text), _) if !text.text.is_empty() => {
                    list.serialize_element(&TextPart { text: &text.text, mark: None })?;
                }
                (Block::Reasoning(thought), _) => match &thought.native {
                    Some(native) => list.serialize_element(native.value())?,
                    None => list.serialize_element(&thinking_item(&thought.text))?,
                },
                _ => {}
            }
        }
        list.end()
    }
}

struct Calls<'a> {
    content: &'a [Block],
    own: bool,
    dialect: &'a Dialect,
}

impl Serialize for Calls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for block in self.content {
            match block {
                Block::ToolCall(call) => match call.native.as_ref().filter(|_| self.own) {
                    Some(native) => list.serialize_element(native.value())?,
                    None => list.serialize_element(&Call {
                        id: wire_id(&call.id, self.own, self.dialect),
                        name: &call.name,
                        args: Arguments::Value(&call.args),
                    })?,
                },
                Block::InvalidToolCall(call) => {
                    let raw = self.own && self.dialect.malformed_arguments;
                    list.serialize_element(&Call {
                        id: wire_id(&call.id, self.own, self.dialect),
                        name: if call.name.is_empty() { "unnamed" } else { &call.name },
                        args: Arguments::Raw(if raw { &call.raw } else { "{}" }),
                    })?;
                }
                _ => {}
            }
        }
        list.end()
    }
}

struct Call<'a> {
    id: Cow<'a, str>,
    name: &'a str,
    args: Arguments<'a>,
}

/// Arguments travel as JSON within a text.
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

struct Function<'a> {
    name: &'a str,
    args: &'a Arguments<'a>,
}

impl Serialize for Function<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.name)?;
        map.serialize_entry("arguments", self.args)?;
        map.end()
    }
}

impl Serialize for Call<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("type", "function")?;
        map.serialize_entry("function", &Function { name: self.name, args: &self.args })?;
        map.end()
    }
}

/// Ids that the service gave itself stay as they are; those of others are brought into its form.
pub(super) fn wire_id<'a>(id: &'a str, own: bool, dialect: &Dialect) -> Cow<'a, str> {
    if own { Cow::Borrowed(id) } else { conform(dialect.call_ids, id) }
}
