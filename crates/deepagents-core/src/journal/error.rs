//! Errors of journals.

use std::fmt::Display;

use crate::env::Timestamp;
use crate::ids::{LogPosition, ThreadId};
use crate::message::MAX_VALUE_DEPTH;

/// The error of a journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another owner has written to the thread.
    #[error(
        "thread `{thread}` was changed by somebody else (expected its log to end at {expected}, it ends at {found}); load it again"
    )]
    Conflict {
        /// The thread.
        thread: ThreadId,
        /// Where the writer expected the log to end.
        expected: LogPosition,
        /// Where the log ends.
        found: LogPosition,
    },
    /// Another owner works on the thread.
    #[error(
        "thread `{thread}` is being worked on by {owner} until {until}; wait for that to end, or take the thread over"
    )]
    Busy {
        /// The thread.
        thread: ThreadId,
        /// The owner.
        owner: String,
        /// When its lease expires unless it is renewed.
        until: Timestamp,
    },
    /// The writer no longer owns the thread.
    #[error(
        "thread `{thread}` is no longer ours: it was released, deleted, or claimed by somebody else; resume the thread"
    )]
    Fenced {
        /// The thread.
        thread: ThreadId,
    },
    /// The thread does not exist.
    #[error("there is no thread `{thread}`")]
    NotFound {
        /// The thread.
        thread: ThreadId,
    },
    /// The thread exists already.
    #[error("thread `{thread}` already exists; choose another name or delete it first")]
    Exists {
        /// The thread.
        thread: ThreadId,
    },
    /// The name is not valid for a thread.
    #[error("`{thread}` cannot be the name of a thread: {reason}")]
    Name {
        /// The name.
        thread: ThreadId,
        /// The reason.
        reason: &'static str,
    },
    /// The metadata cannot be stored.
    #[error(
        "metadata `{key}` of thread `{thread}` cannot be stored: it is nested more than {MAX_VALUE_DEPTH} levels deep"
    )]
    Metadata {
        /// The thread.
        thread: ThreadId,
        /// The key.
        key: String,
    },
    /// The log has no state at the position: it ends before it, or the position was pruned.
    #[error("thread `{thread}` has no state at position {position}: {reason}")]
    NoState {
        /// The thread.
        thread: ThreadId,
        /// The position.
        position: LogPosition,
        /// The reason.
        reason: &'static str,
    },
    /// The sub-agent does not exist, or its first records were pruned.
    #[error("thread `{thread}` has no sub-agent `{path}`; `sub_agents` lists those it has")]
    NoAgent {
        /// The thread.
        thread: ThreadId,
        /// The sub-agent's path, with `/` between the parts.
        path: String,
    },
    /// A record cannot be decoded.
    #[error("record {position} of thread `{thread}` cannot be read: {reason}")]
    Damaged {
        /// The thread.
        thread: ThreadId,
        /// The record's position.
        position: LogPosition,
        /// The reason.
        reason: String,
    },
    /// A record cannot be encoded.
    #[error("record {position} of thread `{thread}` cannot be written as JSON: {reason}")]
    Encode {
        /// The thread.
        thread: ThreadId,
        /// The record's intended position.
        position: LogPosition,
        /// The reason.
        reason: String,
    },
    /// A newer version of this library wrote the record.
    #[error(
        "record {position} of thread `{thread}` has version {version}, but this program knows only {} and older; \
         update the program",
        super::RECORD_VERSION
    )]
    Newer {
        /// The thread.
        thread: ThreadId,
        /// The record's position.
        position: LogPosition,
        /// The record's version.
        version: u64,
    },
    /// The storage is temporarily unavailable: it is locked or busy, a connection was lost, or a timeout elapsed.
    /// Whether the call took effect is unknown; an append may be retried unchanged.
    #[error("the journal's storage is unavailable at the moment: {source}")]
    Unavailable {
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The storage failed.
    #[error("the journal's storage failed: {0}")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl JournalError {
    pub(crate) fn not_found(thread: &str) -> Self {
        Self::NotFound { thread: thread.to_owned() }
    }

    pub(crate) fn fenced(thread: &str) -> Self {
        Self::Fenced { thread: thread.to_owned() }
    }

    pub(crate) fn no_state(thread: &str, position: LogPosition, reason: &'static str) -> Self {
        Self::NoState { thread: thread.to_owned(), position, reason }
    }

    pub(crate) fn damaged(thread: &str, position: LogPosition, reason: impl Display) -> Self {
        Self::Damaged { thread: thread.to_owned(), position, reason: reason.to_string() }
    }

    /// Returns a copy of the error for another waiter that it concerns.
    pub(super) fn duplicate(&self) -> Self {
        match self {
            Self::Conflict { thread, expected, found } => {
                Self::Conflict { thread: thread.clone(), expected: *expected, found: *found }
            }
            Self::Fenced { thread } => Self::Fenced { thread: thread.clone() },
            Self::NotFound { thread } => Self::NotFound { thread: thread.clone() },
            Self::Name { thread, reason } => Self::Name { thread: thread.clone(), reason },
            Self::Unavailable { source } => Self::Unavailable { source: source.to_string().into() },
            Self::Storage(source) => Self::Storage(source.to_string().into()),
            other => Self::Storage(other.to_string().into()),
        }
    }

    /// Returns whether retrying the same call a little later may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
