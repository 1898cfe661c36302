//! The messages of a Chat Completions body, written straight from ours.

use std::borrow::Cow;
use std::collections::HashMap;

use deepagents_core::message::{AssistantMessage, Block, Message, ToolMessage};
use deepagents_core::model::{CacheTtl, ModelError, ModelRequest};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::Chat;
use super::dialect::{CallIds, Dialect, ReasoningForm};
use super::media::MediaPart;
use super::said::{Said, wire_id};

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

/// A text with its cache mark.
pub(super) struct TextPart<'a> {
    pub(super) text: &'a str,
    pub(super) mark: Option<CacheTtl>,
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
