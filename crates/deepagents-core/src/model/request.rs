//! Requests to models.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ProviderTool, SystemBlock, ToolSpec};
use crate::message::{Messages, Origin};

/// A request to a model: everything the model is shown, and nothing about the run.
///
/// Changing a request does not change what the thread stores.
///
/// ```
/// use deepagents_core::model::ModelRequest;
/// let request = ModelRequest::new("What is the capital of Piedmont?");
/// assert!(request.tools.is_empty() && request.system.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The system prompt in blocks, static ones first.
    pub system: Vec<SystemBlock>,
    /// The conversation.
    pub messages: Messages,
    /// The tools offered.
    pub tools: Vec<Arc<ToolSpec>>,
    /// Tools that a provider runs itself. Each is sent only to the provider it is for.
    pub provider_tools: Vec<Arc<ProviderTool>>,
    /// Whether a tool must be called, and which.
    pub tool_choice: ToolChoice,
    /// Whether one turn may contain several calls; `None` leaves it to the provider.
    pub parallel_tool_calls: Option<bool>,
    /// A schema that the provider itself enforces for the answer.
    pub output_schema: Option<OutputSchema>,
    /// Sampling and other settings.
    pub settings: ModelSettings,
    /// Where the provider caches the prompt.
    pub cache: CacheMarks,
    /// Headers for this request only, for HTTP clients, such as its trace context. They are not part of recordings.
    pub headers: Vec<(String, String)>,
}

impl ModelRequest {
    /// Creates a request with only these messages.
    pub fn new(messages: impl Into<Messages>) -> Self {
        Self { messages: messages.into(), ..Self::default() }
    }

    /// Returns the entries that a client of this origin sends after the tools, in order.
    pub fn provider_tools_for<'a>(&'a self, origin: &'a Origin) -> impl Iterator<Item = &'a Value> {
        self.provider_tools.iter().filter(|tool| tool.is_for(origin)).map(|tool| &tool.spec)
    }

    /// Returns the system prompt as one text, with blocks joined by blank lines.
    pub fn system_text(&self) -> String {
        let texts: Vec<&str> = self.system.iter().map(|b| &*b.text).filter(|t| !t.is_empty()).collect();
        texts.join("\n\n")
    }
}

impl From<&str> for Messages {
    fn from(text: &str) -> Self {
        std::iter::once(crate::message::Message::user(text)).collect()
    }
}

impl From<Vec<crate::message::Message>> for Messages {
    fn from(messages: Vec<crate::message::Message>) -> Self {
        messages.into_iter().collect()
    }
}

/// How long a provider caches a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CacheTtl {
    /// Five minutes after the last use.
    #[default]
    #[serde(rename = "5m")]
    FiveMinutes,
    /// One hour after the last use.
    #[serde(rename = "1h")]
    OneHour,
}

/// Cache breakpoints outside the system blocks, which carry their own.
///
/// Providers allow four in all. A client rejects a request with more, or with a longer lifetime after a shorter one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CacheMarks {
    /// After the last tool.
    pub tools: Option<CacheTtl>,
    /// After the last block of the message at this index.
    pub messages: Vec<(usize, CacheTtl)>,
}

impl CacheMarks {
    /// Drops marks on messages that a middleware has removed since. The end of the conversation is marked in their place,
    /// unless it is an answer, which providers do not mark.
    pub(crate) fn fit(&mut self, messages: &Messages) {
        let count = messages.len();
        let gone = self.messages.iter().rev().find(|(at, _)| *at >= count).map(|(_, ttl)| *ttl);
        let Some(ttl) = gone else { return };
        self.messages.retain(|(at, _)| *at < count);
        let is_answer = messages.last().is_none_or(|message| message.as_assistant().is_some());
        if let Some(end) =
            count.checked_sub(1).filter(|end| !is_answer && self.messages.iter().all(|(at, _)| at != end))
        {
            self.messages.push((end, ttl));
        }
    }
}

/// Whether a tool must be called, and which.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must not call tools.
    None,
    /// The model must call some tool.
    Any,
    /// The model must call this tool.
    Tool(String),
}

/// A JSON schema for the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// A short name of the schema, `[A-Za-z0-9_-]`.
    pub name: String,
    /// The schema.
    pub schema: Arc<Value>,
}

/// Sampling and other settings. Settings that are `None` are not sent.
///
/// ```
/// use deepagents_core::model::ModelSettings;
/// let mut settings = ModelSettings::default();
/// settings.temperature = Some(0.2);
/// settings.max_tokens = Some(4_000);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelSettings {
    /// Maximum tokens of the answer.
    pub max_tokens: Option<u64>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling threshold.
    pub top_p: Option<f64>,
    /// Stop sequences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Time limit for the whole call, including retries.
    pub timeout: Option<Duration>,
    /// Fields merged into the request body unchanged, last.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}
