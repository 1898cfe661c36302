//! What a model answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ModelError;
use super::error::milliseconds;
use crate::message::{AssistantMessage, Usage};

/// A piece of an answer. `block` is the position of the block within the answer; pieces are true deltas.
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
        /// Position of the block.
        block: usize,
        /// The new part.
        delta: String,
    },
    /// More reasoning.
    Reasoning {
        /// Position of the block.
        block: usize,
        /// The new part.
        delta: String,
    },
    /// A tool call begins.
    ToolCall {
        /// Position of the block.
        block: usize,
        /// The provider's id.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of a call's arguments, JSON in pieces.
    ToolArgs {
        /// Position of the block.
        block: usize,
        /// The new part; may be empty.
        delta: String,
    },
    /// The attempt failed; whatever it produced is void and the call is made again after a pause.
    Retry {
        /// Why.
        error: ModelError,
        /// How long the pause is.
        #[serde(rename = "after_ms", with = "milliseconds")]
        after: Duration,
    },
    /// The whole answer. Nothing follows.
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
    /// The turn.
    pub message: AssistantMessage,
    /// Its tokens.
    pub usage: Usage,
    /// Why the model stopped.
    pub stop: StopReason,
}

impl ModelOutput {
    /// An answer that ended by itself.
    pub fn new(message: AssistantMessage) -> Self {
        Self { message, ..Self::default() }
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
    /// It had said everything.
    #[default]
    End,
    /// It wants tools run.
    ToolCalls,
    /// The token limit of the answer was reached.
    MaxTokens,
    /// A stop text was produced.
    StopSequence,
    /// The provider or the model declined.
    Refusal,
    /// A long-running turn was paused by the provider and is to be continued by sending it back.
    Pause,
    /// The context window is full.
    ContextWindow,
    /// Something else, in the provider's word.
    Other(String),
}

impl StopReason {
    pub(crate) fn is_end(&self) -> bool {
        *self == Self::End
    }
}
