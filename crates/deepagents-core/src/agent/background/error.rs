//! Why something cannot be done with an agent in the background.

use crate::error::Error;
use crate::ids::ThreadId;
use crate::journal::JournalError;

/// Why something cannot be done with an agent in the background.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackgroundError {
    /// As many run as may run at once.
    #[error("{running} tasks are running; wait for one, or cancel one")]
    TooMany {
        /// How many.
        running: usize,
    },
    /// It is run elsewhere: by another process, or another agent object.
    #[error("task `{thread}` is being run by {owner} in another process: do this there, or wait until that has ended")]
    Elsewhere {
        /// Its thread.
        thread: ThreadId,
        /// Who owns that.
        owner: String,
    },
    /// Nobody runs it.
    #[error("task `{thread}` is not being run anywhere: run its parent, or resume it")]
    NotRunning {
        /// Its thread.
        thread: ThreadId,
    },
    /// There is no such task any more.
    #[error("there is no task `{thread}`")]
    NotFound {
        /// Its thread.
        thread: ThreadId,
    },
    /// Its run failed.
    #[error("{reason}")]
    Failed {
        /// Why.
        reason: String,
    },
    /// Anything else.
    #[error(transparent)]
    Other(#[from] Error),
}

impl From<JournalError> for BackgroundError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Busy { thread, owner, .. } => Self::Elsewhere { thread, owner },
            other => Self::Other(other.into()),
        }
    }
}
