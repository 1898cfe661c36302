//! Errors of a run.

use crate::journal::JournalError;
use crate::model::ModelError;
use crate::run::Stop;
use crate::state::ChannelError;
use crate::store::StoreError;

/// Any error, boxed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The result of a hook.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a run failed. Whatever the run had finished before is kept.
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
    #[error("{from} asked for `{go}`, but {reason}")]
    Route {
        /// The phase.
        from: &'static str,
        /// The wish.
        go: &'static str,
        /// Why it cannot be.
        reason: &'static str,
    },
    /// The history is one that providers refuse.
    #[error("the history cannot be sent to a model: {0}")]
    History(String),
    /// The model did not produce the shape that was asked for.
    #[error("the model gave no valid `{name}` after {tries} tries: {reason}")]
    Structured {
        /// The shape.
        name: String,
        /// How often it was asked.
        tries: u32,
        /// What was wrong last.
        reason: String,
    },
    /// The run's budget is spent. The run takes care of it; a wrap hands it on.
    #[error("the budget of the run is spent: {}", .0.words())]
    Spent(Stop),
    /// An answer to a question is not taken; the question stays open.
    #[error(transparent)]
    Answer(#[from] crate::ask::AnswerError),
    /// A call waits for a decision. The run takes care of it; a wrap hands it on.
    #[error("the call waits for a decision")]
    Paused(Box<crate::run::Pause>),
    /// The state refused an update.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The long-term store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
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
            Self::Tool { .. } => "tool",
            Self::Hook { source, .. } => source.kind(),
            Self::Route { .. } => "route",
            Self::History(_) => "history",
            Self::Structured { .. } => "structured_output",
            Self::Spent(_) => "budget",
            Self::Answer(_) => "answer",
            Self::Paused(_) => "paused",
            Self::Channel(_) => "state",
            Self::Journal(_) => "journal",
            Self::Store(_) => "store",
            Self::Input(_) => "input",
            Self::Other(_) => "other",
        }
    }

    /// How the run ends if its budget is spent, however deep that lies below hooks.
    pub(crate) fn spent(&self) -> Option<&Stop> {
        match self {
            Self::Spent(stop) => Some(stop),
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
