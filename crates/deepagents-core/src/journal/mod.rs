//! The log of a thread: what happened, appended before its effect is visible.
//!
//! A checkpoint is a position in the log, not a copy of the state. [`MemoryJournal`] keeps logs in memory; databases
//! implement [`Journal`].

mod fold;
mod memory;
mod record;

use futures_core::future::BoxFuture;

pub(crate) use fold::committed;
pub use fold::{Folded, fold};
pub use memory::MemoryJournal;
pub use record::{Record, RecordUpdate};

/// Names a thread of conversation.
pub type ThreadId = String;

/// How many records a log holds; the next record gets this position.
pub type Position = u64;

/// Keeps the logs of threads.
///
/// Records are appended in order and never changed. An append succeeds only at the end the writer knows, so that two
/// processes on one thread get an error instead of a fork in silence.
pub trait Journal: Send + Sync + 'static {
    /// Appends records at `expected`, all or none, and returns the new end.
    ///
    /// # Errors
    /// [`JournalError::Conflict`] when the log ends elsewhere.
    fn append<'a>(
        &'a self,
        thread: &'a str,
        expected: Position,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Position, JournalError>>;

    /// The records of a thread from the start, at most up to `until`; empty for an unknown thread.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn load<'a>(&'a self, thread: &'a str, until: Option<Position>)
    -> BoxFuture<'a, Result<Vec<Record>, JournalError>>;
}

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
        expected: Position,
        /// Where it ends.
        found: Position,
    },
    /// A record cannot be understood.
    #[error("record {position} of thread `{thread}` cannot be read: {reason}")]
    Damaged {
        /// The thread.
        thread: ThreadId,
        /// The record.
        position: Position,
        /// What is wrong.
        reason: String,
    },
    /// The storage failed.
    #[error("the journal's storage failed: {0}")]
    Storage(#[source] crate::error::BoxError),
}
