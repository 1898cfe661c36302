//! Spans as data, with their attributes in the conventions.

use std::borrow::Cow;
use std::sync::Arc;

use deepagents_core::message::{AssistantMessage, Usage};
use deepagents_core::model::ModelServer;

use crate::conventions as names;
use crate::{SpanContext, SpanId};

/// A finished span of a run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Span {
    /// Its identity.
    pub context: SpanContext,
    /// The parent span, in this or another process.
    pub parent: Option<SpanId>,
    /// The span of the previous process' part of the run that this one resumes.
    pub link: Option<SpanContext>,
    /// The start, in nanoseconds since 1970.
    pub start: u64,
    /// The end, in nanoseconds since 1970.
    pub end: u64,
    /// The agent's name.
    pub agent: Arc<str>,
    /// The agent's path, empty for the main agent.
    pub path: Arc<[String]>,
    /// The thread.
    pub thread: Option<Arc<str>>,
    /// The operation.
    pub operation: Operation,
    /// The error, if it failed.
    pub error: Option<SpanError>,
    /// The content, if requested: attributes and their texts.
    pub content: Vec<(&'static str, String)>,
}

/// The operation of a span.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// A process' part of a run of the main agent, or a run of a sub-agent.
    InvokeAgent {
        /// The agent's description; `None` if only the log or the events are available.
        description: Option<Arc<str>>,
        /// The id of the run.
        run: Arc<str>,
        /// The number of the process that works on it, from 0.
        attempt: u32,
        /// The model of its last request.
        model: Option<Arc<ModelName>>,
        /// Tokens of the agent and those below it.
        usage: Usage,
        /// Why it ended, as a stable name, if known.
        finish: Option<Cow<'static, str>>,
    },
    /// A model request.
    Chat(Chat),
    /// A tool call.
    ExecuteTool {
        /// The tool.
        tool: Arc<str>,
        /// The provider's id of the call.
        call: String,
    },
}

/// A model request, including failed attempts.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Chat {
    /// The model; `None` if only the log is available.
    pub model: Option<Arc<ModelName>>,
    /// The id of the answer in the thread.
    pub message: String,
    /// Tokens.
    pub usage: Usage,
    /// Why the model stopped, as a stable name.
    pub finish: Option<Cow<'static, str>>,
    /// Nanoseconds until the first piece of the answer.
    pub first_chunk: Option<u64>,
    /// The settings of the request.
    pub settings: Option<Box<RequestSettings>>,
    /// The answer's metadata; `None` if only the log or the events are available.
    pub response: Option<Box<ResponseInfo>>,
    /// Failed attempts.
    pub discarded: Vec<DiscardedAttempt>,
}

/// The name of a model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelName {
    /// The provider, by its name in the conventions.
    pub provider: Arc<str>,
    /// The model, by its provider's name for it.
    pub model: Arc<str>,
}

impl ModelName {
    /// Parses `provider:model`.
    pub fn new(name: &str) -> Self {
        let (provider, model) = name.split_once(':').unwrap_or(("_OTHER", name));
        Self { provider: names::provider_name(provider).into(), model: model.into() }
    }
}

/// The settings of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestSettings {
    /// The maximum number of tokens of the answer.
    pub max_tokens: Option<u64>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// The top-p of nucleus sampling.
    pub top_p: Option<f64>,
    /// Sequences that end the answer.
    pub stop: Vec<String>,
    /// The seed of sampling.
    pub seed: Option<i64>,
    /// The server that the request was sent to.
    pub server: Option<ModelServer>,
}

/// The metadata of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseInfo {
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// The model that answered, if it is known to differ from the requested one, as with fallbacks.
    pub model: Option<String>,
}

impl ResponseInfo {
    /// Returns the metadata of an answer, or `None` if it has none.
    pub(crate) fn of(answer: &AssistantMessage, asked: Option<&ModelName>) -> Option<Box<Self>> {
        let id = Some(answer.id.clone()).filter(|id| !id.is_empty());
        let model = answer.origin.as_ref().map(|origin| origin.model.clone());
        let info = Self { id, model: model.filter(|model| asked.is_some_and(|asked| *asked.model != **model)) };
        (info != Self::default()).then(|| Box::new(info))
    }
}

/// A failed attempt of a request that was retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscardedAttempt {
    /// When it failed, in nanoseconds since 1970.
    pub at: u64,
    /// The delay before the next attempt, in milliseconds.
    pub retry_after_ms: u64,
    /// Why it failed, if content was requested.
    pub reason: Option<String>,
}

/// The error of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanError {
    /// The stable name of the error's class.
    pub kind: Cow<'static, str>,
    /// The error message, if content was requested.
    pub message: Option<String>,
}

impl SpanError {
    pub(crate) fn new(kind: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: kind.into(), message: None }
    }
}

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Internal to this process.
    Internal,
    /// A request to another process.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AttributeValue<'a> {
    /// A text.
    Text(&'a str),
    /// Texts.
    Texts(Vec<&'a str>),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
}

impl Span {
    /// Returns the span's name: `invoke_agent NAME`, `chat MODEL`, `execute_tool TOOL`.
    pub fn name(&self) -> String {
        let about: &str = match &self.operation {
            Operation::InvokeAgent { .. } => &self.agent,
            Operation::Chat(Chat { model: Some(model), .. }) => &model.model,
            Operation::Chat(_) => return self.operation.name().to_owned(),
            Operation::ExecuteTool { tool, .. } => tool,
        };
        format!("{} {about}", self.operation.name())
    }

    /// Returns the kind of the span.
    pub fn kind(&self) -> SpanKind {
        match self.operation {
            Operation::Chat(_) => SpanKind::Client,
            _ => SpanKind::Internal,
        }
    }

    /// Returns the duration in seconds.
    pub fn seconds(&self) -> f64 {
        seconds(self.end.saturating_sub(self.start))
    }

    /// Returns the attributes by their names in the [conventions](crate::conventions), including content.
    pub fn attributes(&self) -> Vec<(&'static str, AttributeValue<'_>)> {
        use AttributeValue::{Double, Int, Text, Texts};
        let mut all = Vec::with_capacity(16);
        all.push((names::OPERATION_NAME, Text(self.operation.name())));
        all.push((names::AGENT_NAME, Text(&self.agent)));
        all.extend(self.thread.as_deref().map(|thread| (names::CONVERSATION_ID, Text(thread))));
        match &self.operation {
            Operation::InvokeAgent { description, run, attempt, model, usage, finish } => {
                all.extend(description.as_deref().map(|text| (names::AGENT_DESCRIPTION, Text(text))));
                model_attributes(&mut all, model.as_deref());
                usage_attributes(&mut all, *usage);
                all.extend(self.path.last().map(|own| (names::AGENT_ID, Text(own))));
                all.extend([(names::RUN_ID, Text(run)), (names::RUN_ATTEMPT, Int((*attempt).into()))]);
                all.extend(finish.as_deref().map(|finish| (names::FINISH_REASON, Text(finish))));
            }
            Operation::Chat(Chat { model, message, usage, finish, first_chunk, settings, response, .. }) => {
                model_attributes(&mut all, model.as_deref());
                usage_attributes(&mut all, *usage);
                all.extend(finish.as_deref().map(|finish| (names::RESPONSE_FINISH_REASONS, Texts(vec![finish]))));
                if let Some(response) = response {
                    all.extend(response.id.as_deref().map(|id| (names::RESPONSE_ID, Text(id))));
                    all.extend(response.model.as_deref().map(|model| (names::RESPONSE_MODEL, Text(model))));
                }
                all.extend(first_chunk.map(|nanos| (names::RESPONSE_TIME_TO_FIRST_CHUNK, Double(seconds(nanos)))));
                if !message.is_empty() {
                    all.push((names::MESSAGE_ID, Text(message)));
                }
                if let Some(settings) = settings {
                    all.extend(settings.max_tokens.map(|n| (names::REQUEST_MAX_TOKENS, Int(int(n)))));
                    all.extend(settings.temperature.map(|n| (names::REQUEST_TEMPERATURE, Double(n))));
                    all.extend(settings.top_p.map(|n| (names::REQUEST_TOP_P, Double(n))));
                    all.extend(settings.seed.map(|seed| (names::REQUEST_SEED, Int(seed))));
                    if let Some(server) = &settings.server {
                        all.push((names::SERVER_ADDRESS, Text(&server.host)));
                        all.push((names::SERVER_PORT, Int(server.port.into())));
                    }
                    if !settings.stop.is_empty() {
                        let stop = settings.stop.iter().map(String::as_str).collect();
                        all.push((names::REQUEST_STOP_SEQUENCES, Texts(stop)));
                    }
                }
            }
            Operation::ExecuteTool { tool, call } => {
                all.push((names::TOOL_NAME, Text(tool)));
                all.push((names::TOOL_TYPE, Text(names::TOOL_TYPE_FUNCTION)));
                all.push((names::TOOL_CALL_ID, Text(call)));
            }
        }
        all.extend(self.error.as_ref().map(|error| (names::ERROR_TYPE, Text(&error.kind))));
        all.extend(self.content.iter().map(|(name, text)| (*name, Text(text))));
        all
    }
}

impl Operation {
    /// Returns the operation's name in the conventions.
    pub fn name(&self) -> &'static str {
        match self {
            Self::InvokeAgent { .. } => names::operation::INVOKE_AGENT,
            Self::Chat(_) => names::operation::CHAT,
            Self::ExecuteTool { .. } => names::operation::EXECUTE_TOOL,
        }
    }
}

fn model_attributes<'a>(all: &mut Vec<(&'static str, AttributeValue<'a>)>, model: Option<&'a ModelName>) {
    if let Some(model) = model {
        all.push((names::PROVIDER_NAME, AttributeValue::Text(&model.provider)));
        all.push((names::REQUEST_MODEL, AttributeValue::Text(&model.model)));
    }
}

fn usage_attributes(all: &mut Vec<(&'static str, AttributeValue<'_>)>, usage: Usage) {
    let counts = [
        (names::USAGE_INPUT_TOKENS, usage.input),
        (names::USAGE_OUTPUT_TOKENS, usage.output),
        (names::USAGE_CACHE_READ, usage.cache_read),
        (names::USAGE_CACHE_WRITE, usage.cache_write),
        (names::USAGE_REASONING, usage.reasoning),
    ];
    // A zero means that the provider reports no such count.
    let told = counts.into_iter().filter(|(_, count)| *count > 0);
    all.extend(told.map(|(name, count)| (name, AttributeValue::Int(int(count)))));
}

fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[allow(clippy::cast_precision_loss, reason = "a difference of times is far below 2^53 microseconds")]
pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
