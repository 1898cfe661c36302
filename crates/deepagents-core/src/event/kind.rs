//! Event kinds.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::MiddlewareEvent;

use crate::error::Error;
use crate::ids::CallId;
use crate::interrupt::{ActionRequest, Decision, DecisionAuthor, DecisionRecord};
use crate::message::{MAX_VALUE_DEPTH, ToolMessage, Usage, is_deeper, joined_text};
use crate::model::StopReason;
use crate::state::{ChannelError, MessagesChannel, Update, UpdateEntry};
use crate::status::FinishReason;

/// What an event reports.
///
/// ```
/// use deepagents_core::event::EventKind;
/// fn line(kind: &EventKind) -> Option<String> {
///     match kind {
///         EventKind::ToolStarted { name, args, .. } => Some(format!("{name} {args}")),
///         EventKind::ToolFinished { name, error: true, text, .. } => Some(format!("{name} failed: {text}")),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// The run started.
    RunStarted {
        /// The run's thread, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread: Option<String>,
    },
    /// An agent started.
    AgentStarted {
        /// The agent's name.
        name: String,
    },
    /// A model call starts.
    ModelStarted {
        /// The model, as `provider:model`.
        model: String,
        /// The turn: the number of earlier model answers in the agent's thread.
        turn: u32,
        /// The attempt within this turn, starting at 0.
        attempt: u32,
        /// The message id of this attempt's answer, which no other attempt has. Empty in events of earlier versions.
        #[serde(default)]
        message: String,
    },
    /// A piece of the answer's text.
    TextDelta {
        /// See [`ModelStarted`](Self::ModelStarted).
        turn: u32,
        /// The attempt it belongs to.
        attempt: u32,
        /// The text to append.
        text: String,
    },
    /// A piece of reasoning.
    ReasoningDelta {
        /// See [`ModelStarted`](Self::ModelStarted).
        turn: u32,
        /// The attempt it belongs to.
        attempt: u32,
        /// The text to append.
        text: String,
    },
    /// A piece of a tool call: first its name, then its arguments as fragments of JSON.
    ToolCallDelta {
        /// See [`ModelStarted`](Self::ModelStarted).
        turn: u32,
        /// The attempt it belongs to.
        attempt: u32,
        /// Index of the block in the answer.
        block: usize,
        /// The provider's id of the call, in the first piece.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The tool's name, in the first piece.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The text to append to the arguments.
        args: String,
    },
    /// An attempt failed. Discard its deltas.
    AttemptDiscarded {
        /// See [`ModelStarted`](Self::ModelStarted).
        turn: u32,
        /// The failed attempt.
        attempt: u32,
        /// The reason.
        reason: String,
        /// Pause before the next attempt, in milliseconds.
        retry_after_ms: u64,
        /// Whether the provider requested that pause. Absent from events of earlier versions.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        requested: bool,
        /// Whether the model itself retries. If not, the call has failed, and only a middleware may retry it. Absent
        /// from events of earlier versions.
        #[serde(default)]
        again: bool,
        /// Message id of the next attempt's answer. Absent from events of earlier versions.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        next: String,
    },
    /// The answer is complete and stored.
    ModelFinished {
        /// See [`ModelStarted`](Self::ModelStarted).
        turn: u32,
        /// The attempt that succeeded.
        attempt: u32,
        /// Id of the message.
        message: String,
        /// Tokens used by the call.
        usage: Usage,
        /// Why the model stopped.
        stop: StopReason,
    },
    /// A tool call starts.
    ToolStarted {
        /// The call.
        call: CallId,
        /// The provider's id of the call.
        id: String,
        /// The tool's name.
        name: String,
        /// Its arguments.
        args: Value,
    },
    /// A tool reports progress.
    ToolProgress {
        /// The call.
        call: CallId,
        /// The progress text.
        text: String,
    },
    /// A tool has finished, and its result is stored.
    ToolFinished {
        /// The call.
        call: CallId,
        /// The provider's id of the call.
        id: String,
        /// The tool's name.
        name: String,
        /// Whether the call failed.
        error: bool,
        /// The text shown to the model.
        text: String,
    },
    /// A channel other than the messages changed.
    StateChanged {
        /// The channel.
        channel: String,
        /// The change, in the channel's own format.
        update: Value,
    },
    /// A message sent with [`steer`](crate::run::RunHandle::steer) or [`enqueue`](crate::run::RunHandle::enqueue) has
    /// been added to the conversation.
    Steered {
        /// Its text.
        text: String,
    },
    /// A call waits for a decision. The run ends with [`FinishReason::Interrupted`]; resume it with the answer.
    #[serde(rename = "asked")]
    ActionRequested {
        /// The question.
        question: Box<ActionRequest>,
    },
    /// A question was answered, by a person or because it expired, and the run continues; or a rule decided about a
    /// call without a question.
    #[serde(rename = "answered")]
    ActionDecided {
        /// The question's id, or the call's if nobody was asked.
        id: String,
        /// The decision.
        decision: Decision,
        /// The author of the decision, if recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        author: Option<DecisionAuthor>,
    },
    /// An event of one of the library's middlewares. In JSON its `type` is `custom`, with the `name` and the `data` of
    /// the [`MiddlewareEvent`].
    #[serde(skip)]
    Middleware(MiddlewareEvent),
    /// An event that a tool or middleware sends to the application with
    /// [`Context::custom`](crate::run::Context::custom).
    Custom {
        /// The event's name.
        name: String,
        /// The event's data.
        data: Value,
    },
    /// An agent ended.
    AgentFinished {
        /// The reason.
        stop: FinishReason,
        /// Tokens used by the agent and its sub-agents.
        usage: Usage,
    },
    /// A sub-agent failed. The call that ran it reports this to its parent agent.
    AgentFailed {
        /// A stable identifier for the class of the error.
        kind: String,
        /// The error as text.
        error: String,
    },
    /// The run ended.
    RunFinished {
        /// The reason.
        stop: FinishReason,
        /// Tokens used by all agents.
        usage: Usage,
        /// Number of model calls of the main agent, not counting retries.
        model_calls: u32,
    },
    /// The run failed. What it had finished is kept.
    RunFailed {
        /// A stable identifier for the class of the error.
        kind: String,
        /// The error as text.
        error: String,
    },
    /// Events were dropped here because the subscriber lagged, or subscribed later: pieces of answers and other events
    /// that are not [durable](Self::is_durable). Occurs only in event streams.
    Lagged {
        /// Number of dropped events. This event has the sequence number of the last of them.
        dropped: u64,
    },
    /// A kind that this version does not know, read from JSON.
    #[serde(other)]
    Unknown,
}

impl EventKind {
    /// Creates the event of a decision.
    pub(crate) fn decided(id: &str, decided: &DecisionRecord) -> Self {
        let DecisionRecord { decision, author } = decided.clone();
        Self::ActionDecided { id: id.to_owned(), decision, author }
    }

    /// Creates the event of an error that ends the run, or only a sub-agent.
    pub(crate) fn failed(error: &Error, is_main: bool) -> Self {
        let (kind, error) = (error.kind().to_owned(), error.to_string());
        if is_main { Self::RunFailed { kind, error } } else { Self::AgentFailed { kind, error } }
    }

    /// Creates the event of a call that has this result.
    pub(crate) fn tool_finished(call: CallId, message: &ToolMessage) -> Self {
        Self::ToolFinished {
            call,
            id: message.call_id.clone(),
            name: message.name.clone(),
            error: message.is_error,
            text: joined_text(&message.content),
        }
    }

    /// Creates the events of an update, except those of its messages.
    pub(crate) fn state_changes(update: &Update) -> Result<Vec<Self>, ChannelError> {
        let shown = update.entries().iter().filter(|e| !e.spec().is::<MessagesChannel>() && !e.spec().is_private());
        let changed = |entry: &UpdateEntry| {
            Ok(Self::StateChanged { channel: entry.spec().name().to_owned(), update: entry.to_json()? })
        };
        shown.map(changed).collect()
    }

    /// Returns whether the event stems from a record, so that it can be replayed: a run or agent started or ended, an
    /// answer is complete, a tool started or finished, the state changed, a message was delivered, or a question was
    /// asked or decided.
    pub fn is_durable(&self) -> bool {
        match self {
            Self::RunStarted { .. }
            | Self::AgentStarted { .. }
            | Self::ModelFinished { .. }
            | Self::ToolStarted { .. }
            | Self::ToolFinished { .. }
            | Self::StateChanged { .. }
            | Self::Steered { .. }
            | Self::ActionRequested { .. }
            | Self::ActionDecided { .. }
            | Self::AgentFinished { .. }
            | Self::AgentFailed { .. }
            | Self::RunFinished { .. }
            | Self::RunFailed { .. } => true,
            Self::ModelStarted { .. }
            | Self::TextDelta { .. }
            | Self::ReasoningDelta { .. }
            | Self::ToolCallDelta { .. }
            | Self::AttemptDiscarded { .. }
            | Self::ToolProgress { .. }
            | Self::Middleware(_)
            | Self::Custom { .. }
            | Self::Lagged { .. }
            | Self::Unknown => false,
        }
    }

    /// Creates an application's event. Data nested too deep for JSON parsers is converted to a string.
    pub(crate) fn custom(name: String, data: Value) -> Self {
        let data = if is_deeper(&data, MAX_VALUE_DEPTH) { Value::String(data.to_string()) } else { data };
        Self::Custom { name, data }
    }

    /// Returns whether this is the last event of its run.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::RunFinished { .. } | Self::RunFailed { .. })
    }
}

// The derived methods are called as `Self::serialize` and `Self::deserialize`: events of middlewares and of
// applications share the `type` `custom`, and only the name distinguishes them.
impl Serialize for EventKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Named<'a> {
            r#type: &'static str,
            #[serde(flatten)]
            event: &'a MiddlewareEvent,
        }
        match self {
            Self::Middleware(event) => Named { r#type: "custom", event }.serialize(serializer),
            kind => Self::serialize(kind, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for EventKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Self::deserialize(deserializer)? {
            Self::Custom { name, data } => match MiddlewareEvent::read(&name, &data) {
                Some(event) => Self::Middleware(event),
                None => Self::Custom { name, data },
            },
            kind => kind,
        })
    }
}
