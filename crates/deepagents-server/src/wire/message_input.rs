//! Parsing of messages from clients: as flat objects, pairs, texts, and LangChain's serialised and stored forms.

use std::borrow::Cow;
use std::sync::Arc;

use deepagents_core::message::{
    AssistantMessage, Author, Block, InvalidToolCall, Message, MessageOp, ToolMessage, UserMessage,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::as_sent;
use super::block_input::{answer_blocks, result_blocks, user_blocks};
use super::input::InputError;
use crate::deserialize::{from_ref, present};

/// Parses messages: a list or a single one.
pub(super) fn messages(value: &Value) -> Result<Vec<MessageOp>, InputError> {
    let one = |(at, value): (usize, &Value)| {
        let read = match value {
            Value::String(text) => Ok(MessageOp::put(Message::user(text.as_str()))),
            // LangChain's pair of a role and a content.
            Value::Array(pair) if let [Value::String(role), content] = pair.as_slice() => {
                read(&json!({"role": role, "content": content}))
            }
            other => read(&flat(other)),
        };
        read.map_err(|reason| InputError::Message { at, reason })
    };
    match value {
        Value::Array(list) => list.iter().enumerate().map(one).collect(),
        Value::Null => Ok(Vec::new()),
        single => Ok(vec![one((0, single))?]),
    }
}

/// Parses a message as a flat object.
fn read(value: &Value) -> Result<MessageOp, String> {
    Ok(match from_ref(value).and_then(Wire::read)? {
        MessageOp::Put(message) => {
            MessageOp::Put(Arc::new(as_sent::keep_original(value, Arc::unwrap_or_clone(message))))
        }
        other => other,
    })
}

/// Returns the role that a name stands for, which may be that of a class of LangChain.
pub(super) fn role_name(name: &str) -> &str {
    name.strip_suffix("MessageChunk").or_else(|| name.strip_suffix("Message")).unwrap_or(name)
}

/// Unwraps a message in LangChain's serialised object format, taking the role from its class, or in its stored format,
/// a type with data. Other messages are returned as they are.
fn flat(value: &Value) -> Cow<'_, Value> {
    let kind = value.get("type").and_then(Value::as_str);
    let class = value.get("id").and_then(|id| id.as_array()?.last()?.as_str());
    let (role, fields) = match (kind, class, value.get("kwargs"), value.get("data")) {
        (Some("constructor"), Some(class), Some(Value::Object(fields)), _) => {
            let role = class.strip_suffix("Chunk").unwrap_or(class);
            (role.strip_suffix("Message").unwrap_or(role).to_lowercase(), fields)
        }
        (Some(kind), _, None, Some(Value::Object(fields))) if value.get("content").is_none() => {
            (kind.to_owned(), fields)
        }
        _ => return Cow::Borrowed(value),
    };
    let mut fields = fields.clone();
    fields.remove("type");
    // A chat message names its role itself.
    if role != "chat" {
        fields.insert("role".to_owned(), role.into());
    }
    Cow::Owned(Value::Object(fields))
}

#[derive(Deserialize)]
#[serde(expecting = "a message: a string, a pair of a role and a content, or an object with `role` and `content`")]
struct Wire {
    role: Option<String>,
    /// Takes the place of a role that is not given.
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "present")]
    content: Option<Value>,
    #[serde(default, deserialize_with = "id")]
    id: Option<String>,
    name: Option<String>,
    tool_calls: Option<Vec<WireCall>>,
    invalid_tool_calls: Option<Vec<WireInvalidCall>>,
    #[serde(default, deserialize_with = "id")]
    tool_call_id: Option<String>,
    status: Option<String>,
    artifact: Option<Value>,
    additional_kwargs: Option<Value>,
}

#[derive(Deserialize)]
struct WireCall {
    #[serde(default, deserialize_with = "id")]
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
    #[serde(default, deserialize_with = "id")]
    id: Option<String>,
    name: Option<String>,
    args: Option<String>,
    error: Option<String>,
}

/// Deserialises an id, which may be a number.
fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(id) => Ok(Some(id)),
        Value::Number(id) => Ok(Some(id.to_string())),
        _ => Err(D::Error::custom("an id is a string or a number")),
    }
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
        match arguments(&function.arguments) {
            Ok(args) => Ok(Block::call(id, function.name, args)),
            Err(error) => Err(format!("the arguments of the call of {} are not valid JSON: {error}", function.name)),
        }
    }
}

/// Parses the arguments of a call, which may be JSON text.
fn arguments(value: &Value) -> Result<Value, serde_json::Error> {
    match value {
        Value::String(text) if text.trim().is_empty() => Ok(Value::Object(Map::new())),
        Value::String(text) => serde_json::from_str(text),
        Value::Null => Ok(Value::Object(Map::new())),
        other => Ok(other.clone()),
    }
}

/// Returns the call of a function whose arguments are JSON text, whether or not they can be parsed.
pub(super) fn call_of(id: String, name: String, args: &Value) -> Block {
    match arguments(args) {
        Ok(args) if args.is_object() => Block::call(id, name, args),
        parsed => Block::InvalidToolCall(InvalidToolCall {
            id,
            name,
            raw: args.as_str().map_or_else(|| args.to_string(), str::to_owned),
            error: parsed.err().map_or_else(|| "the arguments are no object".to_owned(), |error| error.to_string()),
            native: None,
        }),
    }
}

/// Returns the calls that only the provider's own fields of an answer have. Calls of functions in the earlier format of
/// OpenAI have no ids, and their results name the function.
fn calls_beside(kwargs: &Value) -> Vec<Block> {
    let call = |id: &Value, function: &Value| {
        let name = function.get("name")?.as_str()?.to_owned();
        let id = id.as_str().map_or_else(|| name.clone(), str::to_owned);
        Some(call_of(id, name, function.get("arguments").unwrap_or(&Value::Null)))
    };
    let calls = kwargs.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    let calls = calls.filter_map(|one| call(one.get("id")?, one.get("function")?));
    let earlier = kwargs.get("function_call").and_then(|function| call(&Value::Null, function));
    calls.chain(earlier).collect()
}

impl Wire {
    fn read(self) -> Result<MessageOp, String> {
        let role = self.role.as_deref().or(self.kind.as_deref()).ok_or("a message needs `role`")?;
        let id = self.id.unwrap_or_default();
        let role = role_name(role);
        let missing = || "a message needs `content`".to_owned();
        Ok(MessageOp::Put(Arc::new(match role {
            "user" | "human" | "Human" => {
                let content = user_blocks(&self.content.ok_or_else(missing)?)?;
                Message::User(UserMessage { id, content, author: Author::Human, as_sent: None })
            }
            // Instructions that a client adds to the conversation.
            "system" | "developer" | "System" => {
                let content = user_blocks(&self.content.ok_or_else(missing)?)?;
                Message::User(UserMessage { id, content, author: Author::Harness, as_sent: None })
            }
            "assistant" | "ai" | "AI" => {
                let calls = self.tool_calls.into_iter().flatten().map(WireCall::read).collect::<Result<Vec<_>, _>>()?;
                let invalid = self.invalid_tool_calls.into_iter().flatten().map(Block::from);
                let mut calls: Vec<Block> = calls.into_iter().chain(invalid).collect();
                if calls.is_empty() {
                    calls = self.additional_kwargs.as_ref().map(calls_beside).unwrap_or_default();
                }
                // An answer that only calls tools may lack a content.
                let given = self.content.or_else(|| (!calls.is_empty()).then_some(Value::Null)).ok_or_else(missing)?;
                let mut content = answer_blocks(&given, &calls)?;
                content.append(&mut calls);
                Message::Assistant(AssistantMessage { id, name: self.name, ..AssistantMessage::new(content) })
            }
            "tool" | "function" | "Tool" | "Function" => {
                let of_function = self.name.clone().filter(|_| role.eq_ignore_ascii_case("function"));
                Message::Tool(ToolMessage {
                    id,
                    call_id: self.tool_call_id.or(of_function).ok_or("a tool message needs tool_call_id")?,
                    name: self.name.unwrap_or_default(),
                    content: result_blocks(&self.content.ok_or_else(missing)?)?,
                    is_error: self.status.as_deref() == Some("error"),
                    artifact: self.artifact.filter(|artifact| !artifact.is_null()),
                    ..ToolMessage::default()
                })
            }
            "remove" | "Remove" if id == "__remove_all__" => return Ok(MessageOp::RemoveAll),
            "remove" | "Remove" if !id.is_empty() => return Ok(MessageOp::Remove(id)),
            other => return Err(format!("`{other}` is not a role; roles are user, assistant, tool and system")),
        })))
    }
}
