//! Spans as data: what they are about, and the attributes that the conventions give them.

use std::borrow::Cow;
use std::sync::Arc;

use deepagents_core::message::{AssistantMessage, Usage};
use deepagents_core::model::ModelServer;

use crate::conventions as names;
use crate::{SpanContext, SpanId};

/// A part of a run that has ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Span {
    /// Its identity.
    pub context: SpanContext,
    /// The span that it is a part of, here or in another process.
    pub parent: Option<SpanId>,
    /// The span of the process that began what this one goes on with.
    pub link: Option<SpanContext>,
    /// When it began, in nanoseconds since 1970.
    pub start: u64,
    /// When it ended, in nanoseconds since 1970.
    pub end: u64,
    /// The agent.
    pub agent: Arc<str>,
    /// Its path, empty for the main one.
    pub path: Arc<[String]>,
    /// The thread.
    pub thread: Option<Arc<str>>,
    /// What was done.
    pub operation: Operation,
    /// Why it failed, if it did.
    pub error: Option<SpanError>,
    /// What was said, where that was asked for: attributes and their texts.
    pub content: Vec<(&'static str, String)>,
}

/// What was done.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// A process' part of a run of the main agent, or of a sub-agent.
    InvokeAgent {
        /// What the agent is for; none where the log or the events alone are known.
        description: Option<Arc<str>>,
        /// The run.
        run: Arc<str>,
        /// Which process works on it, counted from 0.
        attempt: u32,
        /// The model that it asked last.
        model: Option<Arc<ModelName>>,
        /// Tokens of the agent and those below it.
        usage: Usage,
        /// Why it ended, in a stable word; none if that is not known.
        finish: Option<Cow<'static, str>>,
    },
    /// A request to a model, tries that failed included.
    Chat {
        /// The model; none where the log alone is known.
        model: Option<Arc<ModelName>>,
        /// The id of the answer in the thread.
        message: String,
        /// Tokens.
        usage: Usage,
        /// Why the model stopped, in a stable word.
        finish: Option<Cow<'static, str>>,
        /// Nanoseconds until the first piece of the answer.
        first_chunk: Option<u64>,
        /// What the request asked for.
        settings: Option<Box<RequestSettings>>,
        /// What the answer says of itself; none where the log or the events alone are known.
        response: Option<Box<ResponseInfo>>,
        /// Tries that failed.
        discarded: Vec<DiscardedAttempt>,
    },
    /// A call of a tool.
    ExecuteTool {
        /// The tool.
        tool: Arc<str>,
        /// The provider's id of the call.
        call: String,
    },
}

/// The name of a model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelName {
    /// Who serves it, by the name that the conventions have.
    pub provider: Arc<str>,
    /// The model, as its provider knows it.
    pub model: Arc<str>,
}

impl ModelName {
    /// Reads `provider:model`.
    pub fn new(name: &str) -> Self {
        let (provider, model) = name.split_once(':').unwrap_or(("_OTHER", name));
        Self { provider: names::provider_name(provider).into(), model: model.into() }
    }
}

/// What a request asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestSettings {
    /// Tokens the answer may hold.
    pub max_tokens: Option<u64>,
    /// Randomness.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// What randomness begins with.
    pub seed: Option<i64>,
    /// The server that was asked.
    pub server: Option<ModelServer>,
}

/// What an answer says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseInfo {
    /// The provider's id of it.
    pub id: Option<String>,
    /// The model that gave it, where that is known to be another than was asked, as with fallbacks.
    pub model: Option<String>,
}

impl ResponseInfo {
    /// Of an answer as its model has given it; none where that says nothing.
    pub(crate) fn of(answer: &AssistantMessage, asked: Option<&ModelName>) -> Option<Box<Self>> {
        let id = Some(answer.id.clone()).filter(|id| !id.is_empty());
        let model = answer.origin.as_ref().map(|origin| origin.model.clone());
        let info = Self { id, model: model.filter(|model| asked.is_some_and(|asked| *asked.model != **model)) };
        (info != Self::default()).then(|| Box::new(info))
    }
}

/// A try of a request that failed and was made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscardedAttempt {
    /// When, in nanoseconds since 1970.
    pub at: u64,
    /// The pause before the next try, in milliseconds.
    pub retry_after_ms: u64,
    /// Why, where content was asked for.
    pub reason: Option<String>,
}

/// Why a span failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanError {
    /// A stable word for the class of the error.
    pub kind: Cow<'static, str>,
    /// The error in words, where content was asked for.
    pub message: Option<String>,
}

/// On which side of a border a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Within this process.
    Internal,
    /// It asks another process.
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
    /// A whole number.
    Int(i64),
    /// A number.
    Double(f64),
}

impl Span {
    /// The span's name: `invoke_agent NAME`, `chat MODEL`, `execute_tool TOOL`.
    pub fn name(&self) -> String {
        let about: &str = match &self.operation {
            Operation::InvokeAgent { .. } => &self.agent,
            Operation::Chat { model: Some(model), .. } => &model.model,
            Operation::Chat { model: None, .. } => return self.operation.name().to_owned(),
            Operation::ExecuteTool { tool, .. } => tool,
        };
        format!("{} {about}", self.operation.name())
    }

    /// On which side of a border it is.
    pub fn kind(&self) -> SpanKind {
        match self.operation {
            Operation::Chat { .. } => SpanKind::Client,
            _ => SpanKind::Internal,
        }
    }

    /// How long it took, in seconds.
    #[allow(clippy::cast_precision_loss, reason = "a difference of times is far below 2^53 microseconds")]
    pub fn seconds(&self) -> f64 {
        self.end.saturating_sub(self.start) as f64 / 1e9
    }

    /// Its attributes by the names of the [conventions](crate::conventions), content included.
    pub fn attributes(&self) -> Vec<(&'static str, AttributeValue<'_>)> {
        use AttributeValue::{Double, Int, Text, Texts};
        let mut all = Vec::with_capacity(16);
        all.push((names::OPERATION_NAME, Text(self.operation.name())));
        all.push((names::AGENT_NAME, Text(&self.agent)));
        if let Some(thread) = &self.thread {
            all.push((names::CONVERSATION_ID, Text(thread)));
        }
        match &self.operation {
            Operation::InvokeAgent { description, run, attempt, model, usage, finish } => {
                all.extend(description.as_deref().map(|text| (names::AGENT_DESCRIPTION, Text(text))));
                model_attributes(&mut all, model.as_deref());
                usage_attributes(&mut all, *usage);
                if let Some(own) = self.path.last() {
                    all.push((names::AGENT_ID, Text(own)));
                }
                all.push((names::RUN_ID, Text(run)));
                all.push((names::RUN_ATTEMPT, Int((*attempt).into())));
                all.extend(finish.as_deref().map(|finish| (names::FINISH_REASON, Text(finish))));
            }
            Operation::Chat { model, message, usage, finish, first_chunk, settings, response, .. } => {
                model_attributes(&mut all, model.as_deref());
                usage_attributes(&mut all, *usage);
                all.extend(finish.as_deref().map(|finish| (names::RESPONSE_FINISH_REASONS, Texts(vec![finish]))));
                if let Some(response) = response {
                    all.extend(response.id.as_deref().map(|id| (names::RESPONSE_ID, Text(id))));
                    all.extend(response.model.as_deref().map(|model| (names::RESPONSE_MODEL, Text(model))));
                }
                if let Some(nanos) = first_chunk {
                    all.push((names::RESPONSE_TIME_TO_FIRST_CHUNK, Double(seconds(*nanos))));
                }
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
    /// Its name in the conventions.
    pub fn name(&self) -> &'static str {
        match self {
            Self::InvokeAgent { .. } => names::operation::INVOKE_AGENT,
            Self::Chat { .. } => names::operation::CHAT,
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
    // A provider that tells no tokens has not counted none.
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
