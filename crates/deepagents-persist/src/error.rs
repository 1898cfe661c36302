//! Why a database failed.

use deepagents_core::journal::JournalError;
use deepagents_core::store::StoreError;

/// Why a database failed. Nothing is written half: what failed has not happened, or has as a whole where only the answer
/// was lost.
///
/// Where a journal or a store fails for such a reason, [`of_journal`](Self::of_journal) and
/// [`of_store`](Self::of_store) find it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// Its content is damaged.
    #[error("the database {database} is damaged: {reason}; restore it from a copy")]
    Damaged {
        /// Where it is.
        database: String,
        /// What was found.
        reason: String,
    },
    /// It belongs to another program, or is no database.
    #[error("{database} is not a database of this program: {reason}; choose another location")]
    Foreign {
        /// Where it is.
        database: String,
        /// What was found.
        reason: String,
    },
    /// A newer version of this library has written it.
    #[error(
        "the database {database} has schema {found}, but this program knows only {known} and older; update the program"
    )]
    NewerSchema {
        /// Where it is.
        database: String,
        /// Its schema.
        found: i64,
        /// The newest schema known here.
        known: i64,
    },
    /// There is no room.
    #[error("there is no space left for the database {database}: {reason}; free some, or raise its limit")]
    Full {
        /// Where it is.
        database: String,
        /// What was found.
        reason: String,
    },
    /// It cannot be written.
    #[error("the database {database} cannot be written: {reason}; check its permissions")]
    ReadOnly {
        /// Where it is.
        database: String,
        /// What was found.
        reason: String,
    },
    /// Its file was removed or replaced while it was in use: what is written would be in no file that can be opened again.
    #[error(
        "the database {database} was removed or replaced while it was in use: {reason}; put it back, or restart the \
         program to begin a new one"
    )]
    Removed {
        /// Where it was.
        database: String,
        /// What was found.
        reason: String,
    },
    /// Another process keeps it locked, or has changed at the same moment what this one was changing.
    #[error("the database {database} is locked by another process: {reason}; try again when that process has ended")]
    Locked {
        /// Where it is.
        database: String,
        /// What was found.
        reason: String,
    },
    /// A limit of time ran out: for a connection, a statement, or the server's answer.
    #[error("the database {database} did not answer in time: {reason}; try again, or raise the limit")]
    TimedOut {
        /// Where it is.
        database: String,
        /// What was waited for, and how long.
        reason: String,
    },
    /// It cannot be reached or opened.
    #[error("the database {database} cannot be reached: {reason}")]
    Unavailable {
        /// Where it is.
        database: String,
        /// What was found.
        reason: String,
    },
    /// Anything else.
    #[error("the database {database} failed: {reason}")]
    Other {
        /// Where it is.
        database: String,
        /// What was found.
        reason: String,
    },
}

impl DatabaseError {
    /// The reason for which a journal failed, if it is its database.
    pub fn of_journal(error: &JournalError) -> Option<&Self> {
        match error {
            JournalError::Storage(source) | JournalError::Unavailable { source } => source.downcast_ref(),
            _ => None,
        }
    }

    /// Whether the same call may succeed a little later, with nothing changed but the time.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::TimedOut { .. } | Self::Unavailable { .. })
    }

    /// The reason for which a store failed, if it is its database.
    pub fn of_store(error: &StoreError) -> Option<&Self> {
        match error {
            StoreError::Storage(source) => source.downcast_ref(),
            _ => None,
        }
    }
}

impl From<DatabaseError> for JournalError {
    fn from(error: DatabaseError) -> Self {
        if error.is_transient() {
            return Self::Unavailable { source: Box::new(error) };
        }
        Self::Storage(Box::new(error))
    }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        Self::Storage(Box::new(error))
    }
}
