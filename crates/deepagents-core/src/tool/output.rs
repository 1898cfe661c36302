//! What a tool gives back.

use serde_json::Value;

use crate::error::{BoxError, Error};
use crate::interrupt::PendingInterrupt;
use crate::message::Block;
use crate::state::{State, Update};

/// What a tool gives back when it succeeds.
///
/// ```
/// use deepagents_core::tool::ToolOutput;
/// let output = ToolOutput::text("It is sunny.");
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolOutput {
    /// What the model is shown.
    pub content: Vec<Block>,
    /// Whether the call failed all the same: the model is shown an error, and what changed stays changed.
    pub is_error: bool,
    /// What changes in the state; messages are appended after the results of the turn.
    pub update: Update,
    /// Data for the application, never shown to the model.
    pub artifact: Option<Value>,
    /// The state a sub-agent leaves, to be joined into the agent's.
    pub child_state: Option<ChildState>,
}

/// What a sub-agent was given and what it left. Each channel says what the difference means for the agent above, at the
/// moment the call ends; what both have changed stays as the agent above has it, and the model is told.
#[derive(Clone, Debug)]
pub struct ChildState {
    /// The state the sub-agent began with.
    pub given: State,
    /// The state it ended with.
    pub left: State,
}

impl ToolOutput {
    /// A text for the model.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)], ..Self::default() }
    }

    /// Blocks for the model.
    pub fn blocks(content: Vec<Block>) -> Self {
        Self { content, ..Self::default() }
    }

    /// Changes the state too.
    #[must_use]
    pub fn with_update(mut self, update: Update) -> Self {
        self.update = self.update.and(update);
        self
    }

    /// Tells the model that the call failed, and keeps what it changed.
    #[must_use]
    pub fn as_error(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// Hands back the state of a sub-agent.
    #[must_use]
    pub fn with_child_state(mut self, child_state: ChildState) -> Self {
        self.child_state = Some(child_state);
        self
    }

    /// Gives data to the application.
    #[must_use]
    pub fn with_artifact(mut self, artifact: Value) -> Self {
        self.artifact = Some(artifact);
        self
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<Value> for ToolOutput {
    /// JSON is shown as compact text, a string as itself.
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => Self::text(text),
            other => Self::text(other.to_string()),
        }
    }
}

/// Why a tool did not succeed.
///
/// Any error becomes [`Model`](Self::Model) through `?`: an error result that the model can react to. That holds for
/// whatever can be boxed, such as an `anyhow::Error`, a [`BoxError`] or a text.
///
/// ```
/// use deepagents_core::error::BoxError;
/// use deepagents_core::tool::ToolError;
/// fn look_up(number: u32) -> Result<u32, BoxError> {
///     if number > 100 { Err("there are 100 articles".into()) } else { Ok(number * 2) }
/// }
/// fn price(text: &str) -> Result<u32, ToolError> {
///     if text.is_empty() {
///         return Err(ToolError::model("Give a number."));
///     }
///     // Any error becomes one that the model is told.
///     Ok(look_up(text.parse()?)?)
/// }
/// # assert!(price("x").is_err() && price("101").is_err());
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolError {
    /// The model is told and the run goes on.
    Model {
        /// What it is told.
        text: String,
        /// The error behind it, for wraps that look for its type.
        source: Option<BoxError>,
    },
    /// The call is not allowed; the model is told and the run goes on. Who refused it is in the log.
    Denied {
        /// What the model is told.
        text: String,
        /// The rule that refuses it, in words.
        rule: Option<String>,
    },
    /// The call waits for a decision; made by [`ToolContext::interrupt`](super::ToolContext::interrupt), to be handed on with `?`.
    Interrupted(Box<PendingInterrupt>),
    /// The run ends with this error, once the other calls of the turn have finished.
    Fatal(BoxError),
}

impl ToolError {
    /// An error for the model.
    pub fn model(text: impl Into<String>) -> Self {
        Self::Model { text: text.into(), source: None }
    }

    /// A refusal for the model.
    pub fn denied(text: impl Into<String>) -> Self {
        Self::Denied { text: text.into(), rule: None }
    }

    /// A refusal by a rule, for the model.
    pub fn denied_by(rule: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Denied { text: text.into(), rule: Some(rule.into()) }
    }

    /// An error that ends the run.
    pub fn fatal(error: impl Into<BoxError>) -> Self {
        Self::Fatal(error.into())
    }
}

/// So that a wrap around a call can use `?`: an error that the model is to be told stays one.
impl From<ToolError> for Error {
    fn from(error: ToolError) -> Self {
        match error {
            ToolError::Interrupted(pause) => Self::Interrupted(pause),
            ToolError::Model { text, source } => Self::ToolCall { text, source },
            ToolError::Denied { text, .. } => Self::ToolCall { text, source: None },
            ToolError::Fatal(source) => Self::Other(source),
        }
    }
}

impl<E: Into<BoxError>> From<E> for ToolError {
    fn from(error: E) -> Self {
        let error: BoxError = error.into();
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        Self::Model { text, source: Some(error) }
    }
}
