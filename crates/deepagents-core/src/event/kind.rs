//! The kinds of events.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::MiddlewareEvent;

use crate::ids::CallId;
use crate::interrupt::{ActionRequest, Decision, DecisionAuthor, DecisionRecord};
use crate::message::{DEEPEST, Usage, is_deeper};
use crate::model::StopReason;
use crate::status::FinishReason;

/// What happened.
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
    /// The run began.
    RunStarted {
        /// Its thread, when it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread: Option<String>,
    },
    /// An agent began.
    AgentStarted {
        /// Its name.
        name: String,
    },
    /// The model is asked.
    ModelStarted {
        /// The model, `provider:model`.
        model: String,
        /// Count of model answers in the agent's thread.
        turn: u32,
        /// Counts the tries of this turn from 0.
        attempt: u32,
        /// The id of the answer of this try; each has one of its own. Empty in events of earlier versions.
        #[serde(default)]
        message: String,
    },
    /// More text of the answer.
    TextDelta {
        /// See [`ModelStarted`](Self::ModelStarted).
        turn: u32,
        /// The try it belongs to.
        attempt: u32,
        /// The new part.
        text: String,
    },
    /// More reasoning.
    ReasoningDelta {
        /// See [`ModelStarted`](Self::ModelStarted).
        turn: u32,
        /// The try it belongs to.
        attempt: u32,
        /// The new part.
        text: String,
    },
    /// More of a tool call: its name first, then its arguments as JSON in pieces.
    ToolCallDelta {
        /// See [`ModelStarted`](Self::ModelStarted).
        turn: u32,
        /// The try it belongs to.
        attempt: u32,
        /// Position of the block in the answer.
        block: usize,
        /// The provider's id of the call, in the first piece.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The tool, in the first piece.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The new part of the arguments.
        args: String,
    },
    /// A try failed; its deltas are void.
    AttemptDiscarded {
        /// See [`ModelStarted`](Self::ModelStarted).
        turn: u32,
        /// The try that is void.
        attempt: u32,
        /// Why.
        reason: String,
        /// Pause before the next try, in milliseconds.
        retry_after_ms: u64,
        /// Whether the provider has asked for that pause. Events of earlier versions do not say.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        requested: bool,
        /// Whether the model itself tries again. Where it does not, the call has failed; only a middleware may have it made
        /// once more. Events of earlier versions do not say.
        #[serde(default)]
        again: bool,
        /// Id of the message that the answer of the next try becomes. Events of earlier versions do not have it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        next: String,
    },
    /// The answer is complete and stored.
    ModelFinished {
        /// See [`ModelStarted`](Self::ModelStarted).
        turn: u32,
        /// The try that succeeded.
        attempt: u32,
        /// Id of the message.
        message: String,
        /// Tokens of the call.
        usage: Usage,
        /// Why the model stopped.
        stop: StopReason,
    },
    /// A tool begins.
    ToolStarted {
        /// The call.
        call: CallId,
        /// The provider's id of the call.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        args: Value,
    },
    /// A tool tells how far it is.
    ToolProgress {
        /// The call.
        call: CallId,
        /// Its words.
        text: String,
    },
    /// A tool has finished and its result is stored.
    ToolFinished {
        /// The call.
        call: CallId,
        /// The provider's id of the call.
        id: String,
        /// The tool.
        name: String,
        /// Whether it failed.
        error: bool,
        /// The text the model is shown.
        text: String,
    },
    /// A channel other than the messages changed.
    StateChanged {
        /// The channel.
        channel: String,
        /// The change, in the channel's own form.
        update: Value,
    },
    /// A message given with [`steer`](crate::run::RunHandle::steer) or [`enqueue`](crate::run::RunHandle::enqueue) has
    /// reached the conversation.
    Steered {
        /// Its text.
        text: String,
    },
    /// A call waits for a decision; the run ends with [`FinishReason::Interrupted`] and is resumed with the answer.
    #[serde(rename = "asked")]
    ActionRequested {
        /// The question.
        question: Box<ActionRequest>,
    },
    /// A question was answered, by a person or because its time was up, and the run goes on; or a rule decided about a call
    /// without a question.
    #[serde(rename = "answered")]
    ActionDecided {
        /// The question's id, or the call's where nobody was asked.
        id: String,
        /// What was decided.
        decision: Decision,
        /// Who decided it, if that was noted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        author: Option<DecisionAuthor>,
    },
    /// What a middleware of the library has done. In JSON its `type` is `custom`, with the `name` and the `data` of the
    /// [`MiddlewareEvent`].
    #[serde(skip)]
    Middleware(MiddlewareEvent),
    /// Something a tool or middleware of the application tells it, with
    /// [`Context::custom`](crate::run::Context::custom).
    Custom {
        /// Its kind.
        name: String,
        /// Its content.
        data: Value,
    },
    /// An agent ended.
    AgentFinished {
        /// Why.
        stop: FinishReason,
        /// Tokens of the agent and those below it.
        usage: Usage,
    },
    /// A sub-agent failed; the call that ran it tells its own agent.
    AgentFailed {
        /// A stable word for the class of the error.
        kind: String,
        /// The error in words.
        error: String,
    },
    /// The run ended.
    RunFinished {
        /// Why.
        stop: FinishReason,
        /// Tokens of all agents.
        usage: Usage,
        /// Answers of the main agent's model.
        model_calls: u32,
    },
    /// The run failed; what it had finished is kept.
    RunFailed {
        /// A stable word for the class of the error.
        kind: String,
        /// The error in words.
        error: String,
    },
    /// Events were dropped here because the subscriber had fallen behind, or was not there yet: pieces of answers, and
    /// what else is not [durable](Self::is_durable). Only streams of events have it.
    Lagged {
        /// How many. The last of them has the number of this event.
        dropped: u64,
    },
    /// A kind that this version does not know, read from JSON.
    #[serde(other)]
    Unknown,
}

impl EventKind {
    /// A question was answered.
    pub(crate) fn decided(id: &str, decided: &DecisionRecord) -> Self {
        let DecisionRecord { decision, author } = decided.clone();
        Self::ActionDecided { id: id.to_owned(), decision, author }
    }

    /// Whether it stems from a record, so that it can be given again: whether a run or agent began or ended, an answer is
    /// complete, a tool began or finished, the state changed, something was said, asked or decided.
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

    /// What an application tells; what readers of JSON would not take is told as text.
    pub(crate) fn custom(name: String, data: Value) -> Self {
        let data = if is_deeper(&data, DEEPEST) { Value::String(data.to_string()) } else { data };
        Self::Custom { name, data }
    }

    /// Whether nothing of its run comes after it.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::RunFinished { .. } | Self::RunFailed { .. })
    }
}

// The derived functions are called `EventKind::serialize` and `EventKind::deserialize`: what a middleware tells shares
// its `type` with what an application does, and is told apart by its name.
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
