//! Errors of background agents.

use crate::error::Error;
use crate::ids::ThreadId;
use crate::journal::JournalError;

/// Error of an operation on a background agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackgroundError {
    /// The limit of concurrently running tasks is reached.
    #[error("{running} tasks are running; wait for one, or cancel one")]
    TooMany {
        /// The number of running tasks.
        running: usize,
    },
    /// Another process, or another agent object, runs the task.
    #[error("task `{thread}` is being run by {owner} in another process: do this there, or wait until that has ended")]
    Elsewhere {
        /// The task's thread.
        thread: ThreadId,
        /// The owner of the thread.
        owner: String,
    },
    /// No process runs the task.
    #[error("task `{thread}` is not being run anywhere: run its parent, or resume it")]
    NotRunning {
        /// The task's thread.
        thread: ThreadId,
    },
    /// The task does not exist, or no longer exists.
    #[error("there is no task `{thread}`")]
    NotFound {
        /// The task's thread.
        thread: ThreadId,
    },
    /// The task's run failed.
    #[error("{reason}")]
    Failed {
        /// The reason.
        reason: String,
    },
    /// Any other error.
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
