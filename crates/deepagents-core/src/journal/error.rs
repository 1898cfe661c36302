//! Why a journal failed.

use crate::env::Timestamp;
use crate::ids::{LogPosition, ThreadId};
use crate::message::DEEPEST;

/// Why a journal failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Somebody else has written to the thread.
    #[error(
        "thread `{thread}` was changed by somebody else (expected its log to end at {expected}, it ends at {found}); load it again"
    )]
    Conflict {
        /// The thread.
        thread: ThreadId,
        /// Where the writer thought the log ends.
        expected: LogPosition,
        /// Where it ends.
        found: LogPosition,
    },
    /// Somebody else works on the thread.
    #[error(
        "thread `{thread}` is being worked on by {owner} until {until}; wait for that to end, or take the thread over"
    )]
    Busy {
        /// The thread.
        thread: ThreadId,
        /// Who.
        owner: String,
        /// When its lease runs out unless it is renewed.
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
    /// There is no such thread.
    #[error("there is no thread `{thread}`")]
    NotFound {
        /// The thread.
        thread: ThreadId,
    },
    /// There is such a thread already.
    #[error("thread `{thread}` already exists; choose another name or delete it first")]
    Exists {
        /// The thread.
        thread: ThreadId,
    },
    /// The name cannot be used for a thread.
    #[error("`{thread}` cannot be the name of a thread: {reason}")]
    Name {
        /// The name.
        thread: ThreadId,
        /// Why.
        reason: &'static str,
    },
    /// The metadata cannot be stored.
    #[error("metadata `{key}` of thread `{thread}` cannot be stored: it is nested more than {DEEPEST} levels deep")]
    Metadata {
        /// The thread.
        thread: ThreadId,
        /// The key.
        key: String,
    },
    /// The log does not reach back, or forward, to a position.
    #[error("thread `{thread}` has no state at position {position}: {reason}")]
    NoState {
        /// The thread.
        thread: ThreadId,
        /// The position.
        position: LogPosition,
        /// Why.
        reason: &'static str,
    },
    /// There was no such sub-agent, or the records of its beginning were pruned.
    #[error("thread `{thread}` has no sub-agent `{path}`; `sub_agents` lists those it has")]
    NoAgent {
        /// The thread.
        thread: ThreadId,
        /// Its path, with `/` between the parts.
        path: String,
    },
    /// A record cannot be understood.
    #[error("record {position} of thread `{thread}` cannot be read: {reason}")]
    Damaged {
        /// The thread.
        thread: ThreadId,
        /// The record.
        position: LogPosition,
        /// What is wrong.
        reason: String,
    },
    /// A record cannot be written.
    #[error("record {position} of thread `{thread}` cannot be written as JSON: {reason}")]
    Encode {
        /// The thread.
        thread: ThreadId,
        /// Where the record was to be.
        position: LogPosition,
        /// What is wrong with it.
        reason: String,
    },
    /// A record was written by a newer version of this library.
    #[error(
        "record {position} of thread `{thread}` has version {version}, but this program knows only {} and older; \
         update the program",
        super::RECORD_VERSION
    )]
    Newer {
        /// The thread.
        thread: ThreadId,
        /// The record.
        position: LogPosition,
        /// Its version.
        version: u64,
    },
    /// The storage cannot be used at the moment: it is locked or busy, a connection was lost, a limit of time ran out.
    /// Whether the call was carried out is not known; an append may be repeated as it was.
    #[error("the journal's storage is unavailable at the moment: {source}")]
    Unavailable {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The storage failed.
    #[error("the journal's storage failed: {0}")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl JournalError {
    /// The same error for somebody else whom it concerns.
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

    /// Whether the same call may succeed a little later, with nothing changed but the time.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
