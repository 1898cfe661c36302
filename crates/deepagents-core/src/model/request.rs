//! What a model is asked.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ProviderTool, SystemBlock, ToolSpec};
use crate::message::{Messages, Origin};

/// A request to a model: everything it is shown and told, and nothing about the run.
///
/// Changing a request never changes what the thread remembers.
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
    /// The tools on offer.
    pub tools: Vec<Arc<ToolSpec>>,
    /// Tools that a provider runs itself; each is sent to the provider it is for.
    pub provider_tools: Vec<Arc<ProviderTool>>,
    /// Whether and which tool must be called.
    pub tool_choice: ToolChoice,
    /// Whether several calls may come in one turn; `None` leaves it to the provider.
    pub parallel_tool_calls: Option<bool>,
    /// A schema that the provider itself is to hold the answer to.
    pub output_schema: Option<OutputSchema>,
    /// Sampling and the like.
    pub settings: ModelSettings,
    /// Where the provider is to cache the prompt.
    pub cache: CacheMarks,
    /// Headers of this request alone, for clients that speak HTTP, such as the trace that it is a part of. No part of
    /// recordings.
    pub headers: Vec<(String, String)>,
}

impl ModelRequest {
    /// A request with these messages and nothing else.
    pub fn new(messages: impl Into<Messages>) -> Self {
        Self { messages: messages.into(), ..Self::default() }
    }

    /// What a client of this origin sends beside the tools, in order.
    pub fn provider_tools_for<'a>(&'a self, origin: &'a Origin) -> impl Iterator<Item = &'a Value> {
        self.provider_tools.iter().filter(|tool| tool.is_for(origin)).map(|tool| &tool.spec)
    }

    /// The system prompt as one text, blocks joined by blank lines.
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

/// How long a provider keeps a cached prefix.
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
/// Providers allow four in all; a client refuses a request with more, or with a longer time after a shorter one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CacheMarks {
    /// After the last tool.
    pub tools: Option<CacheTtl>,
    /// After the last block of the message at this index.
    pub messages: Vec<(usize, CacheTtl)>,
}

/// Whether and which tool must be called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No calls.
    None,
    /// Some call.
    Any,
    /// This tool.
    Tool(String),
}

/// A JSON schema for the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// A short name of the shape, `[A-Za-z0-9_-]`.
    pub name: String,
    /// The schema.
    pub schema: Arc<Value>,
}

/// Sampling and the like; what is not set is not sent.
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
    /// Tokens the answer may hold.
    pub max_tokens: Option<u64>,
    /// Randomness.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Texts that end the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// How long the whole call may take, retries included.
    pub timeout: Option<Duration>,
    /// Fields merged into the request's body as they are, last.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}
