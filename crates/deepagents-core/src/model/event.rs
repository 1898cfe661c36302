//! The streamed and complete answers of models.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::milliseconds;
use super::{ModelError, Price};
use crate::message::{AssistantMessage, Block, Usage};

/// A piece of an answer. `block` is the index of the block within the answer. Pieces are true deltas.
///
/// ```
/// use deepagents_core::model::ModelEvent;
/// let piece = ModelEvent::Text { block: 0, delta: "Hel".to_owned() };
/// assert_eq!(serde_json::to_value(piece)?["kind"], "text");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelEvent {
    /// More text.
    Text {
        /// Index of the block.
        block: usize,
        /// The text to append.
        delta: String,
    },
    /// More reasoning.
    Reasoning {
        /// Index of the block.
        block: usize,
        /// The text to append.
        delta: String,
    },
    /// A tool call starts.
    ToolCall {
        /// Index of the block.
        block: usize,
        /// The provider's id.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of a call's arguments, as a fragment of JSON.
    ToolArgs {
        /// Index of the block.
        block: usize,
        /// The text to append; may be empty.
        delta: String,
    },
    /// The attempt failed. Discard everything it produced; the call is retried after a pause.
    Retry {
        /// Why the attempt failed.
        error: ModelError,
        /// The length of the pause.
        #[serde(rename = "after_ms", with = "milliseconds")]
        after: Duration,
    },
    /// The complete answer. No event follows.
    Finished(Box<ModelOutput>),
}

/// A complete answer.
///
/// ```
/// use deepagents_core::message::{AssistantMessage, Block};
/// use deepagents_core::model::ModelOutput;
/// let answer = ModelOutput::new(AssistantMessage::new(vec![Block::text("Four.")]));
/// assert_eq!(answer.message.text(), "Four.");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelOutput {
    /// The message.
    pub message: AssistantMessage,
    /// The tokens used.
    pub usage: Usage,
    /// Why the model stopped.
    pub stop: StopReason,
    /// The price of the model that answered, from a model that calls one of several. `None` means the price in the
    /// profile of the model that was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

impl ModelOutput {
    /// Creates an answer that ended normally.
    pub fn new(message: AssistantMessage) -> Self {
        Self { message, ..Self::default() }
    }
}

impl From<AssistantMessage> for ModelOutput {
    /// The model stopped because of the message's tool calls, if there are any.
    fn from(message: AssistantMessage) -> Self {
        let stop = if message.has_calls() { StopReason::ToolCalls } else { StopReason::End };
        Self { stop, ..Self::new(message) }
    }
}

impl From<String> for ModelOutput {
    fn from(text: String) -> Self {
        Self::new(AssistantMessage::new(vec![Block::text(text)]))
    }
}

impl From<&str> for ModelOutput {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

/// Why a model stopped.
///
/// ```
/// use deepagents_core::model::StopReason;
/// let is_whole = |stop: &StopReason| matches!(stop, StopReason::End | StopReason::ToolCalls | StopReason::StopSequence);
/// assert!(is_whole(&StopReason::End) && !is_whole(&StopReason::MaxTokens));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The answer is complete.
    #[default]
    End,
    /// The model calls tools.
    ToolCalls,
    /// The token limit of the answer was reached.
    MaxTokens,
    /// The model produced a stop sequence.
    StopSequence,
    /// The provider or the model refused.
    Refusal,
    /// The provider paused a long-running turn. Send the answer back to continue it.
    Pause,
    /// The context window is full.
    ContextWindow,
    /// Another reason, as named by the provider.
    Other(String),
}

impl StopReason {
    pub(crate) fn is_end(&self) -> bool {
        *self == Self::End
    }
}
