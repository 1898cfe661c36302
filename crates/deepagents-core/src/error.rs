//! Errors of a run.

use crate::journal::JournalError;
pub use crate::machine::{BudgetError, RouteError};
use crate::message::HistoryError;
use crate::model::ModelError;
use crate::state::ChannelError;
use crate::status::FinishReason;
use crate::store::StoreError;

/// Any error, boxed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The result of a hook.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a run failed. Whatever the run had finished before is kept.
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
    /// A tool asked for the run to end.
    #[error("tool `{name}` failed: {source}")]
    Tool {
        /// The tool.
        name: String,
        /// Its error.
        source: BoxError,
    },
    /// A hook failed.
    #[error("{hook} of middleware `{middleware}` failed: {source}")]
    Hook {
        /// The middleware.
        middleware: String,
        /// The hook.
        hook: &'static str,
        /// Its error.
        source: Box<Error>,
    },
    /// A hook asked to go where the run cannot go.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// A tool call failed in a way that the model is told of. The run takes care of it; a wrap hands it on.
    #[error("{text}")]
    ToolCall {
        /// What the model is told.
        text: String,
        /// The error behind it.
        source: Option<BoxError>,
    },
    /// The history is one that providers refuse.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The model did not produce the shape that was asked for.
    #[error("the model did not return a valid `{name}` after {tries} tries: {reason}")]
    Structured {
        /// The shape.
        name: String,
        /// How often it was asked.
        tries: u32,
        /// What was wrong last.
        reason: String,
    },
    /// The run's budget is spent. The run takes care of it; a wrap hands it on.
    #[error("the run's budget is used up: {}", .0.reason())]
    BudgetExhausted(FinishReason),
    /// An answer to a question is not taken; the question stays open.
    #[error(transparent)]
    Answer(#[from] crate::interrupt::DecisionError),
    /// A call waits for a decision. The run takes care of it; a wrap hands it on.
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
    /// The budget of the run makes no sense.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// The run was left where it was, by its process or because its runtime was shut down. Nothing was written about that: it
    /// can be resumed as one whose process was killed.
    #[error("the run was abandoned before it ended; resume its thread")]
    Left,
    /// The input of the run is wrong.
    #[error("{0}")]
    Input(String),
    /// Anything else.
    #[error(transparent)]
    Other(BoxError),
}

impl Error {
    /// Wraps any error.
    pub fn other(error: impl Into<BoxError>) -> Self {
        Self::Other(error.into())
    }

    /// A stable name of the class, for logs and wire formats.
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

    /// How the run ends if its budget is spent, however deep that lies below hooks.
    pub(crate) fn spent(&self) -> Option<&FinishReason> {
        match self {
            Self::BudgetExhausted(stop) => Some(stop),
            Self::Hook { source, .. } => source.spent(),
            _ => None,
        }
    }

    /// The model's error, however deep it lies below hooks.
    pub fn as_model(&self) -> Option<&ModelError> {
        match self {
            Self::Model(e) => Some(e),
            Self::Hook { source, .. } => source.as_model(),
            _ => None,
        }
    }
}
