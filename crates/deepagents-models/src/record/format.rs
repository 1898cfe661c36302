//! The lines of a recording.

use std::time::Duration;

use deepagents_core::model::{ErrorInfo, ModelError, ModelEvent, ModelProfile, ModelRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::Answer;

pub(super) const VERSION: u64 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Line {
    Recording { model: String, profile: ModelProfile },
    Exchange(Exchange),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Exchange {
    pub(super) seq: u64,
    pub(super) fingerprint: String,
    pub(super) request: Value,
    #[serde(flatten)]
    pub(super) answer: Answer,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum EventRecord {
    Text { block: usize, delta: String },
    Reasoning { block: usize, delta: String },
    ToolCall { block: usize, id: String, name: String },
    ToolArgs { block: usize, delta: String },
    Retry { error: ErrorRecord, after_ms: u64 },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ErrorRecord {
    kind: ErrorKind,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ErrorKind {
    RateLimited,
    Overloaded,
    ContextLength,
    Auth,
    #[serde(rename = "invalid_request")]
    Invalid,
    Transport,
    Truncated,
    Protocol,
}

impl Line {
    /// The line without its line break.
    pub(super) fn to_json(&self) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Versioned<'a> {
            v: u64,
            #[serde(flatten)]
            line: &'a Line,
        }
        serde_json::to_string(&Versioned { v: VERSION, line: self })
    }
}

impl EventRecord {
    /// The record of an event. [`ModelEvent::Finished`] is not one: it is the exchange's output.
    pub(super) fn of(event: &ModelEvent) -> Result<Self, ModelError> {
        Ok(match event {
            ModelEvent::Text { block, delta } => Self::Text { block: *block, delta: delta.clone() },
            ModelEvent::Reasoning { block, delta } => Self::Reasoning { block: *block, delta: delta.clone() },
            ModelEvent::ToolCall { block, id, name } => {
                Self::ToolCall { block: *block, id: id.clone(), name: name.clone() }
            }
            ModelEvent::ToolArgs { block, delta } => Self::ToolArgs { block: *block, delta: delta.clone() },
            ModelEvent::Retry { error, after } => {
                Self::Retry { error: ErrorRecord::of(error)?, after_ms: milliseconds(*after) }
            }
            _ => return Err(ModelError::protocol("the recorder does not know this kind of event")),
        })
    }

    pub(super) fn into_event(self) -> ModelEvent {
        match self {
            Self::Text { block, delta } => ModelEvent::Text { block, delta },
            Self::Reasoning { block, delta } => ModelEvent::Reasoning { block, delta },
            Self::ToolCall { block, id, name } => ModelEvent::ToolCall { block, id, name },
            Self::ToolArgs { block, delta } => ModelEvent::ToolArgs { block, delta },
            Self::Retry { error, after_ms } => {
                ModelEvent::Retry { error: error.into_error(), after: Duration::from_millis(after_ms) }
            }
        }
    }
}

impl ErrorRecord {
    pub(super) fn of(error: &ModelError) -> Result<Self, ModelError> {
        let kind = match error {
            ModelError::RateLimited(_) => ErrorKind::RateLimited,
            ModelError::Overloaded(_) => ErrorKind::Overloaded,
            ModelError::ContextLength(_) => ErrorKind::ContextLength,
            ModelError::Auth(_) => ErrorKind::Auth,
            ModelError::Invalid(_) => ErrorKind::Invalid,
            ModelError::Transport(_) => ErrorKind::Transport,
            ModelError::Truncated(_) => ErrorKind::Truncated,
            ModelError::Protocol(_) => ErrorKind::Protocol,
            _ => return Err(ModelError::protocol("the recorder does not know this kind of error")),
        };
        let info = error.info();
        Ok(Self {
            kind,
            message: info.message.clone(),
            status: info.status,
            code: info.code.clone(),
            retry_after_ms: info.retry_after.map(milliseconds),
            request_id: info.request_id.clone(),
        })
    }

    pub(super) fn into_error(self) -> ModelError {
        let info = ErrorInfo {
            message: self.message,
            status: self.status,
            code: self.code,
            retry_after: self.retry_after_ms.map(Duration::from_millis),
            request_id: self.request_id,
        };
        match self.kind {
            ErrorKind::RateLimited => ModelError::RateLimited(info),
            ErrorKind::Overloaded => ModelError::Overloaded(info),
            ErrorKind::ContextLength => ModelError::ContextLength(info),
            ErrorKind::Auth => ModelError::Auth(info),
            ErrorKind::Invalid => ModelError::Invalid(info),
            ErrorKind::Transport => ModelError::Transport(info),
            ErrorKind::Truncated => ModelError::Truncated(info),
            ErrorKind::Protocol => ModelError::Protocol(info),
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What a model is shown of a request, as JSON: what is left out, such as ids of messages, no model sees.
pub fn request_json(request: &ModelRequest) -> Value {
    let mut value = json!({
        "system": request.system,
        "messages": request.messages,
        "tools": request.tools,
        "tool_choice": request.tool_choice,
        "parallel_tool_calls": request.parallel_tool_calls,
        "output_schema": request.output_schema,
        "settings": request.settings,
        "cache": request.cache,
    });
    let Some(fields) = value.as_object_mut() else { return value };
    if let Some(settings) = fields.get_mut("settings").and_then(Value::as_object_mut) {
        settings.shift_remove("timeout");
    }
    for message in fields.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(message) = message.as_object_mut() {
            for unseen in ["id", "usage", "artifact"] {
                message.shift_remove(unseen);
            }
        }
    }
    value
}

/// A hash of a value in 16 hexadecimal digits: the same whatever the order of its keys is, on every machine and in every
/// version of this program.
pub fn fingerprint(value: &Value) -> String {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.value(value);
    format!("{:016x}", hash.0)
}

/// FNV-1a over the value with its keys sorted.
struct Fnv(u64);

impl Fnv {
    fn text(&mut self, text: &str) {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_unstable_by_key(|(key, _)| *key);
                self.text("{");
                for (key, value) in fields {
                    self.value(&Value::from(key.as_str()));
                    self.value(value);
                }
                self.text("}");
            }
            Value::Array(items) => {
                self.text("[");
                for item in items {
                    self.value(item);
                }
                self.text("]");
            }
            other => self.text(&format!("{other},")),
        }
    }
}
