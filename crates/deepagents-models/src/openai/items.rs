//! The messages of a Chat Completions body, written straight from ours.

use std::borrow::Cow;
use std::collections::HashMap;

use deepagents_core::message::{AssistantMessage, Block, Media, MediaKind, MediaSource, Message, ToolMessage};
use deepagents_core::model::{CacheTtl, ModelError, ModelRequest};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use super::Chat;
use super::call_id::conform;
use super::dialect::{CallIds, Dialect, ReasoningForm};
use super::part::thinking_item;

/// One message of the body.
pub(super) enum Item<'a> {
    /// The system prompt.
    System { role: &'static str, parts: Vec<(Cow<'a, str>, Option<CacheTtl>)> },
    /// What the user says.
    User { content: &'a [Block], mark: Option<CacheTtl> },
    /// What the model said.
    Assistant { said: &'a AssistantMessage, own: bool, dialect: &'a Dialect },
    /// The result of a call.
    Tool { result: &'a ToolMessage, id: Cow<'a, str>, mark: Option<CacheTtl> },
    /// Media of the results before, which a result cannot hold.
    Attachments(Vec<&'a ToolMessage>),
}

/// The conversation as the service takes it.
pub(super) fn items<'a>(chat: &'a Chat, request: &'a ModelRequest) -> Result<Vec<Item<'a>>, ModelError> {
    let dialect = &chat.dialect;
    let mut items = Vec::with_capacity(request.messages.len() + 1);
    let mut attached: Vec<&ToolMessage> = Vec::new();
    // Ids that the service gave itself stay as they are; those of others are brought into its form.
    let mut own_ids: HashMap<&str, bool> = HashMap::new();
    for (index, message) in request.messages.iter().enumerate() {
        let marks = request.cache.messages.iter().rev().filter(|_| dialect.cache_marks);
        let mark = marks.clone().find(|(at, _)| *at == index).map(|(_, ttl)| *ttl);
        if !matches!(&**message, Message::Tool(_)) && !attached.is_empty() {
            items.push(Item::Attachments(std::mem::take(&mut attached)));
        }
        match &**message {
            Message::User(user) if user.content.is_empty() => {}
            Message::User(user) => items.push(Item::User { content: &user.content, mark }),
            Message::Assistant(said) => {
                let own = said
                    .origin
                    .as_ref()
                    .is_some_and(|origin| origin.api == chat.origin.api && origin.provider == chat.origin.provider);
                if dialect.call_ids != CallIds::Any {
                    own_ids.extend(said.call_ids().map(|id| (id, own)));
                }
                if says_something(said, own, dialect) {
                    items.push(Item::Assistant { said, own, dialect });
                }
            }
            Message::Tool(result) => {
                let own = own_ids.get(result.call_id.as_str()).copied().unwrap_or_default();
                items.push(Item::Tool { result, id: wire_id(&result.call_id, own, dialect), mark });
                if result.content.iter().any(|block| matches!(block, Block::Media(_))) {
                    attached.push(result);
                }
            }
            _ => return Err(ModelError::invalid("a message has a role that Chat Completions does not know")),
        }
    }
    if !attached.is_empty() {
        items.push(Item::Attachments(attached));
    }
    if items.is_empty() {
        return Err(ModelError::invalid("there is nothing to send: add at least one message with content"));
    }
    Ok(items)
}

fn wire_id<'a>(id: &'a str, own: bool, dialect: &Dialect) -> Cow<'a, str> {
    if own { Cow::Borrowed(id) } else { conform(dialect.call_ids, id) }
}

fn says_something(said: &AssistantMessage, own: bool, dialect: &Dialect) -> bool {
    said.content.iter().any(|block| match block {
        Block::Text(text) => !text.text.is_empty(),
        Block::ToolCall(_) | Block::InvalidToolCall(_) => true,
        Block::Reasoning(_) => own && dialect.reasoning != ReasoningForm::Hidden,
        _ => false,
    })
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::System { role, parts } => {
                map.serialize_entry("role", role)?;
                match parts.as_slice() {
                    [(text, None)] => map.serialize_entry("content", text)?,
                    _ => map.serialize_entry("content", &Marked(parts))?,
                }
            }
            Self::User { content, mark } => {
                map.serialize_entry("role", "user")?;
                if mark.is_none() && content.iter().all(|block| block.as_text().is_some()) {
                    map.serialize_entry("content", &joined(content))?;
                } else {
                    map.serialize_entry("content", &Parts { content, mark: *mark })?;
                }
            }
            Self::Assistant { said, own, dialect } => {
                map.serialize_entry("role", "assistant")?;
                Said { content: &said.content, own: *own, dialect }.put(&mut map)?;
            }
            Self::Tool { result, id, mark } => {
                map.serialize_entry("role", "tool")?;
                map.serialize_entry("tool_call_id", id)?;
                let text = result_text(result);
                match mark {
                    Some(_) => map.serialize_entry("content", &Marked(&[(text, *mark)]))?,
                    None => map.serialize_entry("content", &text)?,
                }
            }
            Self::Attachments(results) => {
                map.serialize_entry("role", "user")?;
                map.serialize_entry("content", &Attached(results))?;
            }
        }
        map.end()
    }
}

/// The texts among some blocks, joined by newlines; borrowed when there is one.
fn joined(content: &[Block]) -> Cow<'_, str> {
    let mut texts = content.iter().filter_map(Block::as_text);
    let Some(first) = texts.next() else { return Cow::Borrowed("") };
    let mut text = Cow::Borrowed(first);
    for more in texts {
        let text = text.to_mut();
        text.push('\n');
        text.push_str(more);
    }
    text
}

/// A result as text. The API has no flag for errors, so the text says it.
fn result_text(result: &ToolMessage) -> Cow<'_, str> {
    let text = joined(&result.content);
    let has_media = result.content.iter().any(|block| matches!(block, Block::Media(_)));
    match text {
        text if result.is_error && !text.get(..5).is_some_and(|head| head.eq_ignore_ascii_case("error")) => {
            Cow::Owned(format!("Error: {text}"))
        }
        text if text.is_empty() && has_media => Cow::Borrowed("(the result is attached below)"),
        text => text,
    }
}

/// Text parts with their cache marks.
struct Marked<'a>(&'a [(Cow<'a, str>, Option<CacheTtl>)]);

impl Serialize for Marked<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(text, mark)| TextPart { text, mark: *mark }))
    }
}

struct TextPart<'a> {
    text: &'a str,
    mark: Option<CacheTtl>,
}

impl Serialize for TextPart<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "text")?;
        map.serialize_entry("text", self.text)?;
        match self.mark {
            None => {}
            Some(CacheTtl::FiveMinutes) => {
                map.serialize_entry("cache_control", &HashMap::from([("type", "ephemeral")]))?;
            }
            Some(CacheTtl::OneHour) => {
                map.serialize_entry("cache_control", &serde_json::json!({"type": "ephemeral", "ttl": "1h"}))?;
            }
        }
        map.end()
    }
}

/// A user's content as parts.
struct Parts<'a> {
    content: &'a [Block],
    mark: Option<CacheTtl>,
}

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let last_text = self.content.iter().rposition(|block| block.as_text().is_some());
        let mut list = serializer.serialize_seq(None)?;
        for (at, block) in self.content.iter().enumerate() {
            match block {
                Block::Text(text) if !text.text.is_empty() => {
                    let mark = self.mark.filter(|_| last_text == Some(at));
                    list.serialize_element(&TextPart { text: &text.text, mark })?;
                }
                Block::Media(media) => list.serialize_element(&MediaPart(media))?,
                Block::Opaque(opaque) => list.serialize_element(opaque.native.value())?,
                _ => {}
            }
        }
        list.end()
    }
}

struct Attached<'a>(&'a [&'a ToolMessage]);

impl Serialize for Attached<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for result in self.0 {
            let text = format!("Attached to the result of {} ({}):", result.name, result.call_id);
            list.serialize_element(&TextPart { text: &text, mark: None })?;
            for block in &result.content {
                if let Block::Media(media) = block {
                    list.serialize_element(&MediaPart(media))?;
                }
            }
        }
        list.end()
    }
}

struct MediaPart<'a>(&'a Media);

/// One field, written as an object.
struct One<K, V>(K, V);

impl<K: Serialize, V: Serialize> Serialize for One<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(&self.0, &self.1)])
    }
}

/// Where the bytes are, as one text: an address or the bytes themselves.
struct Address<'a>(&'a Media);

impl Serialize for Address<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.source {
            MediaSource::Base64(data) => serializer.collect_str(&format_args!("data:{};base64,{data}", self.0.mime)),
            MediaSource::Url(url) => serializer.serialize_str(url),
            _ => Err(serde::ser::Error::custom("only documents can be named by the id of an uploaded file here")),
        }
    }
}

impl Serialize for MediaPart<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let media = self.0;
        let mut map = serializer.serialize_map(None)?;
        match (media.kind, &media.source) {
            (MediaKind::Image, _) => {
                map.serialize_entry("type", "image_url")?;
                map.serialize_entry("image_url", &One("url", Address(media)))?;
            }
            (MediaKind::Video, _) => {
                map.serialize_entry("type", "video_url")?;
                map.serialize_entry("video_url", &One("url", Address(media)))?;
            }
            (MediaKind::Audio, MediaSource::Base64(data)) => {
                let format = if media.mime.ends_with("wav") || media.mime.ends_with("wave") { "wav" } else { "mp3" };
                map.serialize_entry("type", "input_audio")?;
                map.serialize_entry("input_audio", &serde_json::json!({"data": data, "format": format}))?;
            }
            (MediaKind::File, MediaSource::FileId(id)) => {
                map.serialize_entry("type", "file")?;
                map.serialize_entry("file", &One("file_id", id))?;
            }
            (MediaKind::File, _) => {
                map.serialize_entry("type", "file")?;
                map.serialize_entry("file", &File(media))?;
            }
            _ => return Err(serde::ser::Error::custom(format!("{} content cannot be sent this way", media.mime))),
        }
        map.end()
    }
}

struct File<'a>(&'a Media);

impl Serialize for File<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("filename", self.0.name.as_deref().unwrap_or("document.pdf"))?;
        map.serialize_entry("file_data", &Address(self.0))?;
        map.end()
    }
}

/// What the model said, as the service takes it back.
struct Said<'a> {
    content: &'a [Block],
    own: bool,
    dialect: &'a Dialect,
}

impl Said<'_> {
    /// A text that the model gave as a refusal, if it was this service's.
    fn refusal<'b>(&self, block: &'b Block) -> Option<&'b str> {
        let Block::Text(text) = block else { return None };
        let native = text.native.as_ref().filter(|_| self.own)?;
        native.value().get("refusal").is_some().then_some(&text.text)
    }

    fn put<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
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
