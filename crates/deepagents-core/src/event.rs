//! What happens during a run, as it happens.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::CallId;
use crate::interrupt::{ActionRequest, Decision};
use crate::message::Usage;
use crate::model::StopReason;
use crate::status::FinishReason;

/// Version of the JSON form of [`Event`]. It grows when a field changes its meaning or goes away, not when one is added.
pub const EVENT_VERSION: u32 = 1;

/// Something that happened. As JSON it is one flat object:
/// `{"v":1,"seq":7,"run":"run_1","path":[],"type":"text_delta","turn":0,"attempt":0,"text":"Hel"}`.
///
/// ```
/// use deepagents_core::event::{Event, EventKind};
/// let line = r#"{"v":1,"seq":4,"run":"run_1","path":[],"type":"text_delta","turn":0,"attempt":0,"text":"Hel"}"#;
/// let event: Event = serde_json::from_str(line)?;
/// assert!(matches!(event.kind, EventKind::TextDelta { text, .. } if text == "Hel"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// [`EVENT_VERSION`].
    pub v: u32,
    /// Counts the events of a run from 0, sub-agents included, without gaps.
    pub seq: u64,
    /// The run.
    pub run: Arc<str>,
    /// The agent: empty for the main one, `["task:<call>"]` for a sub-agent.
    pub path: Arc<[String]>,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

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
#[serde(tag = "type", rename_all = "snake_case")]
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
    /// A message given with [`steer`](crate::run::Run::steer) has reached the conversation.
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
    /// A question was answered, by a person or because its time was up; the run goes on.
    #[serde(rename = "answered")]
    ActionDecided {
        /// The question's id.
        id: String,
        /// What was decided.
        decision: Decision,
    },
    /// Something a tool or middleware tells the application.
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
}
