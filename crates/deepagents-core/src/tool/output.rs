//! The output and errors of tools.

use std::fmt;

use serde_json::Value;

use crate::error::{BoxError, Error};
use crate::interrupt::PendingInterrupt;
use crate::message::Block;
use crate::state::{ChildState, Update};

/// The output of a successful tool call.
///
/// ```
/// use deepagents_core::tool::ToolOutput;
/// let output = ToolOutput::text("It is sunny.");
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The content shown to the model.
    pub content: Vec<Block>,
    /// Whether the call failed all the same: the model is shown an error, and the state changes are kept.
    pub is_error: bool,
    /// The state changes. Messages are appended after the results of the turn.
    pub update: Update,
    /// Data for the application, never shown to the model.
    pub artifact: Option<Value>,
    /// The state that a sub-agent leaves, to be merged into the agent's.
    pub child_state: Option<ChildState>,
}

impl ToolOutput {
    /// Creates an output with a text for the model.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)], ..Self::default() }
    }

    /// Creates an output with content blocks for the model.
    pub fn blocks(content: Vec<Block>) -> Self {
        Self { content, ..Self::default() }
    }

    /// Adds state changes.
    #[must_use]
    pub fn with_update(mut self, update: Update) -> Self {
        self.update = self.update.and(update);
        self
    }

    /// Marks the output as an error for the model, but keeps its state changes.
    #[must_use]
    pub fn as_error(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// Passes on the state of a sub-agent.
    #[must_use]
    pub fn with_child_state(mut self, child_state: ChildState) -> Self {
        self.child_state = Some(child_state);
        self
    }

    /// Adds data for the application.
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
    /// Shows JSON as compact text, and a string as itself.
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => Self::text(text),
            other => Self::text(other.to_string()),
        }
    }
}

/// The error of a tool call.
///
/// Any error becomes [`Model`](Self::Model) through `?`: an error result that the model can react to. This works for
/// anything that can be boxed, such as an `anyhow::Error`, a [`BoxError`] or a string. For this reason it does not
/// implement [`std::error::Error`] itself; [`Error`](crate::error::Error), into which it converts, does.
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
/// assert_eq!(price("101").unwrap_err().text(), Some("there are 100 articles"));
/// assert_eq!(price("").unwrap_err().to_string(), "Give a number.");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolError {
    /// The model receives an error, and the run continues.
    Model {
        /// The text for the model.
        text: String,
        /// The underlying error, for wrap hooks that downcast it.
        source: Option<BoxError>,
    },
    /// The call is not allowed. The model receives an error, and the run continues. The log records who refused the
    /// call.
    Denied {
        /// The text for the model.
        text: String,
        /// The rule that refused it, as text.
        rule: Option<String>,
    },
    /// The call waits for a decision. Returned by [`ToolContext::interrupt`](super::ToolContext::interrupt); propagate
    /// it with `?`.
    Interrupted(Box<PendingInterrupt>),
    /// The run fails with this error, once the other calls of the turn have finished.
    Fatal(BoxError),
}

impl ToolError {
    /// Creates an error for the model.
    pub fn model(text: impl Into<String>) -> Self {
        Self::Model { text: text.into(), source: None }
    }

    /// Creates a refusal for the model.
    pub fn denied(text: impl Into<String>) -> Self {
        Self::Denied { text: text.into(), rule: None }
    }

    /// Creates a refusal by a rule, for the model.
    pub fn denied_by(rule: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Denied { text: text.into(), rule: Some(rule.into()) }
    }

    /// Creates an error that ends the run.
    pub fn fatal(error: impl Into<BoxError>) -> Self {
        Self::Fatal(error.into())
    }

    /// Returns the text for the model; `None` if the call waits for a decision or ends the run.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Model { text, .. } | Self::Denied { text, .. } => Some(text),
            Self::Interrupted(_) | Self::Fatal(_) => None,
        }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model { text, .. } | Self::Denied { text, .. } => f.write_str(text),
            Self::Interrupted(_) => f.write_str("the call waits for a decision"),
            Self::Fatal(error) => error.fmt(f),
        }
    }
}

/// Lets a wrap hook use `?`. Errors for the model remain errors for the model.
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
