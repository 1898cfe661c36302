//! Errors of a run.

use crate::journal::JournalError;
pub use crate::machine::{BudgetError, RouteError};
use crate::message::HistoryError;
use crate::model::ModelError;
use crate::state::ChannelError;
use crate::status::FinishReason;
use crate::store::StoreError;

/// A boxed error of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The result type of hooks.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a failed run. Everything the run had finished before is kept.
///
/// ```
/// use deepagents_core::error::Error;
/// let error = Error::other(std::io::Error::other("the cable is cut"));
/// assert_eq!((error.kind(), error.to_string().as_str()), ("other", "the cable is cut"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model could not answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A tool required the run to end.
    #[error("tool `{name}` failed: {source}")]
    Tool {
        /// The tool.
        name: String,
        /// The tool's error.
        source: BoxError,
    },
    /// A hook failed.
    #[error("{hook} of middleware `{middleware}` failed: {source}")]
    Hook {
        /// The middleware.
        middleware: String,
        /// The hook.
        hook: &'static str,
        /// The hook's error.
        source: Box<Error>,
    },
    /// A hook requested a jump that is not possible.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// A tool call failed, and the model is to be told. The run handles this error; a wrap hook must propagate it.
    #[error("{text}")]
    ToolCall {
        /// The text for the model.
        text: String,
        /// The underlying error.
        source: Option<BoxError>,
    },
    /// Providers would reject the history.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The model did not produce a valid structured answer.
    #[error("the model did not return a valid `{name}` after {tries} tries: {reason}")]
    Structured {
        /// The name of the response format.
        name: String,
        /// The number of attempts.
        tries: u32,
        /// The reason the last one was not valid.
        reason: String,
    },
    /// The run's budget is spent. The run handles this error; a wrap hook must propagate it.
    #[error("the run's budget is used up: {}", .0.reason())]
    BudgetExhausted(FinishReason),
    /// An answer to a question is not valid; the question stays open.
    #[error(transparent)]
    Answer(#[from] crate::interrupt::DecisionError),
    /// A call waits for a decision. The run handles this error; a wrap hook must propagate it.
    #[error("the call waits for a decision")]
    Interrupted(Box<crate::interrupt::PendingInterrupt>),
    /// The state refused an update.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The long-term store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run's budget is not valid.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// The run was abandoned, by its process or because its runtime shut down. Nothing was recorded about this, so it
    /// can be resumed like a run whose process was killed.
    #[error("the run was abandoned before it ended; resume its thread")]
    Left,
    /// The run's input is not valid.
    #[error("{0}")]
    Input(String),
    /// Any other error.
    #[error(transparent)]
    Other(BoxError),
}

impl Error {
    /// Wraps another error.
    pub fn other(error: impl Into<BoxError>) -> Self {
        Self::Other(error.into())
    }

    /// Returns a stable name of the error class, for logs and wire formats.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Model(e) => e.kind(),
            Self::Tool { .. } | Self::ToolCall { .. } => "tool",
            Self::Hook { source, .. } => source.kind(),
            Self::Route(_) => "route",
            Self::History(_) => "history",
            Self::Structured { .. } => "structured_output",
            Self::BudgetExhausted(_) => "budget",
            Self::Answer(_) => "answer",
            Self::Interrupted(_) => "paused",
            Self::Channel(_) => "state",
            Self::Journal(_) => "journal",
            Self::Store(_) => "store",
            Self::Input(_) | Self::Budget(_) => "input",
            Self::Left => "left",
            Self::Other(_) => "other",
        }
    }

    /// Creates the error of third-party code that panicked.
    pub(crate) fn panicked(panic: &str) -> Self {
        Self::other(format!("it panicked: {panic}"))
    }

    /// Names the hook of a middleware that failed.
    pub(crate) fn in_hook(self, middleware: &str, hook: &'static str) -> Self {
        Self::Hook { middleware: middleware.to_owned(), hook, source: Box::new(self) }
    }

    /// Returns how the run ends if its budget is spent, looking through nested hook errors.
    pub(crate) fn budget_stop(&self) -> Option<&FinishReason> {
        if let Self::BudgetExhausted(stop) = self.innermost() { Some(stop) } else { None }
    }

    /// Returns the model's error, looking through nested hook errors.
    pub fn as_model(&self) -> Option<&ModelError> {
        if let Self::Model(error) = self.innermost() { Some(error) } else { None }
    }

    fn innermost(&self) -> &Self {
        if let Self::Hook { source, .. } = self { source.innermost() } else { self }
    }
}
