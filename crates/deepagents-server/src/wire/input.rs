//! Parsing of state updates from clients: messages in either format, and other channels by name.

use std::borrow::Cow;
use std::sync::Arc;

use deepagents_core::message::{
    AssistantMessage, Author, Block, InvalidToolCall, Media, MediaKind, MediaSource, Message, MessageOp, Reasoning,
    ToolMessage, UserMessage,
};
use deepagents_core::state::{ChannelError, ChannelSpec, MessagesChannel, Schema, Update};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::as_sent;
use crate::deserialize::{from_ref, from_value};

/// Why an input is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("messages[{at}]: {reason}")]
    Message { at: usize, reason: String },
    #[error("{0}")]
    Channel(#[from] ChannelError),
}

/// Parses a state update.
pub(crate) fn read_update(schema: &Schema, input: &Map<String, Value>) -> Result<Update, InputError> {
    read_channels(schema, input, |_| true)
}

/// Parses the input of a run. Channels that a run does not accept as input are ignored, such as the todos in a state
/// that a client sends back.
pub(crate) fn read_input(schema: &Schema, input: &Map<String, Value>) -> Result<Update, InputError> {
    read_channels(schema, input, ChannelSpec::is_from_input)
}

/// Parses the channels of an update that are not input of a run.
pub(crate) fn read_other_channels(schema: &Schema, input: &Map<String, Value>) -> Result<Update, InputError> {
    read_channels(schema, input, |channel| !channel.is_from_input())
}

fn read_channels(
    schema: &Schema,
    channels: &Map<String, Value>,
    is_wanted: impl Fn(&ChannelSpec) -> bool,
) -> Result<Update, InputError> {
    let mut update = Update::none();
    for (channel, value) in channels {
        // A front end's own keys match no channel and are not stored.
        if schema.by_name(channel).is_none_or(|channel| channel.is_private() || !is_wanted(&channel)) {
            continue;
        }
        match channel.as_str() {
            "messages" => update = update.with::<MessagesChannel>(messages(value)?),
            "files" => update.push_json(schema, channel, files(value))?,
            "todos" => update.push_json(schema, channel, todos(value))?,
            _ if value.is_null() => {}
            _ => update.push_json(schema, channel, value.clone())?,
        }
    }
    Ok(update)
}

/// Normalises files, which may be a string, an object with lines, or an object with a text.
fn files(value: &Value) -> Value {
    let Value::Object(files) = value else { return value.clone() };
    let one = |(path, file): (&String, &Value)| {
        let file = match file {
            Value::String(text) => serde_json::json!({"content": text, "encoding": "utf-8"}),
            other => other.clone(),
        };
        (path.clone(), file)
    };
    Value::Object(files.iter().map(one).collect())
}

/// Normalises a todo list. Items may lack the fields that the harness adds: an id, and when they appeared. Null is an
/// empty list.
fn todos(value: &Value) -> Value {
    if value.is_null() {
        return Value::Array(Vec::new());
    }
    let Value::Array(items) = value else { return value.clone() };
    let one = |(at, item): (usize, &Value)| {
        let mut item = item.clone();
        if let Value::Object(fields) = &mut item {
            fields.entry("id").or_insert_with(|| (at + 1).to_string().into());
            fields.entry("created_at").or_insert_with(|| crate::ids::now().into());
        }
        item
    };
    Value::Array(items.iter().enumerate().map(one).collect())
}

fn messages(value: &Value) -> Result<Vec<MessageOp>, InputError> {
    let one = |(at, value): (usize, &Value)| {
        let read = match value {
            Value::String(text) => Ok(MessageOp::put(Message::user(text.as_str()))),
            // LangChain's pair of a role and a content.
            Value::Array(pair) if let [Value::String(role), content] = pair.as_slice() => {
                let fields = serde_json::json!({"role": role, "content": content});
                from_value(fields).and_then(Wire::read)
            }
            other => {
                let other = &*serialized(other);
                from_ref(other).and_then(Wire::read).map(|op| match op {
                    MessageOp::Put(message) => {
                        MessageOp::Put(Arc::new(as_sent::keep_original(other, Arc::unwrap_or_clone(message))))
                    }
                    other => other,
                })
            }
        };
        read.map_err(|reason| InputError::Message { at, reason })
    };
    match value {
        Value::Array(list) => list.iter().enumerate().map(one).collect(),
        Value::Null => Ok(Vec::new()),
        single => Ok(vec![one((0, single))?]),
    }
}

/// Unwraps a message in LangChain's serialised object format, taking the role from its class. Other messages are
/// returned as they are.
fn serialized(value: &Value) -> Cow<'_, Value> {
    let class = value.get("id").and_then(|id| id.as_array()?.last()?.as_str());
    let (Some("constructor"), Some(class), Some(Value::Object(fields))) =
        (value.get("type").and_then(Value::as_str), class, value.get("kwargs"))
    else {
        return Cow::Borrowed(value);
    };
    let role = class.strip_suffix("Chunk").unwrap_or(class);
    let role = role.strip_suffix("Message").unwrap_or(role).to_lowercase();
    let mut fields = fields.clone();
    if role != "chat" {
        fields.remove("type");
        fields.insert("role".to_owned(), role.into());
    }
    Cow::Owned(Value::Object(fields))
}

#[derive(Deserialize)]
#[serde(expecting = "a message: a string, a pair of a role and a content, or an object with `role` and `content`")]
struct Wire {
    #[serde(alias = "type")]
    role: String,
    #[serde(default)]
    content: Value,
    id: Option<String>,
    name: Option<String>,
    tool_calls: Option<Vec<WireCall>>,
    invalid_tool_calls: Option<Vec<WireInvalidCall>>,
    tool_call_id: Option<String>,
    status: Option<String>,
    artifact: Option<Value>,
}

#[derive(Deserialize)]
struct WireCall {
    id: Option<String>,
    name: Option<String>,
    #[serde(default)]
    args: Value,
    /// In OpenAI's format.
    function: Option<WireFunction>,
}

#[derive(Deserialize)]
struct WireFunction {
    name: String,
    #[serde(default)]
    arguments: Value,
}

/// A call whose arguments could not be parsed.
#[derive(Deserialize)]
struct WireInvalidCall {
    id: Option<String>,
    name: Option<String>,
    args: Option<String>,
    error: Option<String>,
}

impl From<WireInvalidCall> for Block {
    fn from(WireInvalidCall { id, name, args, error }: WireInvalidCall) -> Self {
        Self::InvalidToolCall(InvalidToolCall {
            id: id.unwrap_or_default(),
            name: name.unwrap_or_default(),
            raw: args.unwrap_or_default(),
            error: error.unwrap_or_default(),
            native: None,
        })
    }
}

impl WireCall {
    fn read(self) -> Result<Block, String> {
        let id = self.id.unwrap_or_default();
        let Some(function) = self.function else {
            let name = self.name.ok_or("a tool call needs `name`, or `function` in the form of OpenAI")?;
            return Ok(Block::call(id, name, self.args));
        };
        let args = match &function.arguments {
            Value::String(text) if text.trim().is_empty() => Value::Object(Map::new()),
            Value::String(text) => serde_json::from_str(text).map_err(|error| {
                format!("the arguments of the call of {} are not valid JSON: {error}", function.name)
            })?,
            other => other.clone(),
        };
        Ok(Block::call(id, function.name, args))
    }
}

impl Wire {
    fn read(self) -> Result<MessageOp, String> {
        let id = self.id.unwrap_or_default();
        let content = content(&self.content)?;
        Ok(MessageOp::Put(Arc::new(match self.role.as_str() {
            "user" | "human" | "HumanMessage" => {
                Message::User(UserMessage { id, content, author: Author::Human, as_sent: None })
            }
            // Instructions that a client adds to the conversation.
            "system" | "developer" => {
                Message::User(UserMessage { id, content, author: Author::Harness, as_sent: None })
            }
            "assistant" | "ai" | "AIMessage" | "AIMessageChunk" => {
                let calls = self.tool_calls.into_iter().flatten().map(WireCall::read).collect::<Result<Vec<_>, _>>()?;
                let invalid = self.invalid_tool_calls.into_iter().flatten().map(Block::from);
                let content = content.into_iter().chain(calls).chain(invalid).collect();
                Message::Assistant(AssistantMessage { id, name: self.name, ..AssistantMessage::new(content) })
            }
            "tool" | "ToolMessage" => Message::Tool(ToolMessage {
                id,
                call_id: self.tool_call_id.ok_or("a tool message needs tool_call_id")?,
                name: self.name.unwrap_or_default(),
                content,
                is_error: self.status.as_deref() == Some("error"),
                artifact: self.artifact.filter(|artifact| !artifact.is_null()),
                ..ToolMessage::default()
            }),
            "remove" | "RemoveMessage" if id == "__remove_all__" => return Ok(MessageOp::RemoveAll),
            "remove" | "RemoveMessage" if !id.is_empty() => return Ok(MessageOp::Remove(id)),
            other => return Err(format!("`{other}` is not a role; roles are user, assistant, tool and system")),
        })))
    }
}

fn content(value: &Value) -> Result<Vec<Block>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(text) if text.is_empty() => Ok(Vec::new()),
        Value::String(text) => Ok(vec![Block::text(text.as_str())]),
        Value::Array(blocks) => blocks.iter().map(content_block).collect(),
        _ => Err("content must be a string or a list of blocks".to_owned()),
    }
}

fn content_block(value: &Value) -> Result<Block, String> {
    let Value::Object(block) = value else {
        return value.as_str().map(Block::text).ok_or_else(|| "a block must be an object".to_owned());
    };
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    match text("type").unwrap_or_default() {
        "text" => text("text").map(Block::text).ok_or_else(|| "a text block needs `text`".to_owned()),
        "image_url" => {
            let url = block.get("image_url").and_then(|url| url.as_str().or_else(|| url.get("url")?.as_str()));
            image(url.ok_or("an image block needs `image_url`")?)
        }
        kind @ ("image" | "audio" | "video" | "file") => media(kind, block),
        "reasoning" => Ok(Block::Reasoning(Reasoning {
            text: text("reasoning").ok_or("a reasoning block needs `reasoning`")?.to_owned(),
            native: None,
        })),
        other => Err(format!(
            "blocks of type `{other}` are not supported; text, image_url, image, audio, video, file and reasoning are"
        )),
    }
}

/// Converts an image URL, which may be a `data:` URL.
fn image(url: &str) -> Result<Block, String> {
    let (mime, source) = match url.strip_prefix("data:").and_then(|data| data.split_once(";base64,")) {
        Some((mime, data)) => (mime.to_owned(), MediaSource::Base64(data.to_owned())),
        None => (String::new(), MediaSource::Url(url.to_owned())),
    };
    Ok(Block::Media(Media { kind: MediaKind::Image, mime, source, name: None }))
}

fn media(kind: &str, block: &Map<String, Value>) -> Result<Block, String> {
    let text = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
    let source = text("base64").or_else(|| text("data")).map(MediaSource::Base64);
    let source =
        source.or_else(|| text("url").map(MediaSource::Url)).or_else(|| text("file_id").map(MediaSource::FileId));
    let source = source.ok_or_else(|| format!("a block of type `{kind}` needs `base64`, `url` or `file_id`"))?;
    let kind = match kind {
        "image" => MediaKind::Image,
        "audio" => MediaKind::Audio,
        "video" => MediaKind::Video,
        _ => MediaKind::File,
    };
    let mime = text("mime_type").or_else(|| text("mimeType")).unwrap_or_default();
    let noted = |key: &str| Some(block.get("metadata")?.get(key)?.as_str()?.to_owned());
    let name = text("filename").or_else(|| text("name")).or_else(|| noted("filename")).or_else(|| noted("name"));
    Ok(Block::Media(Media { kind, mime, source, name }))
}
