//! Why a database failed.

use deepagents_core::journal::JournalError;
use deepagents_core::store::StoreError;

/// Why a database operation failed. Operations are atomic: a failed one had no effect, or completed entirely and only
/// the response was lost.
///
/// [`of_journal`](Self::of_journal) and [`of_store`](Self::of_store) extract it from the error of a journal or a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// The contents are damaged.
    #[error("the database {database} is damaged: {reason}; restore it from a copy")]
    Damaged {
        /// Location of the database.
        database: String,
        /// Details.
        reason: String,
    },
    /// The database belongs to another program, or is not a database.
    #[error("{database} is not a database of this program: {reason}; choose another location")]
    Foreign {
        /// Location of the database.
        database: String,
        /// Details.
        reason: String,
    },
    /// A newer version of this library has written the database.
    #[error(
        "the database {database} has schema {found}, but this program knows only {known} and older; update the program"
    )]
    NewerSchema {
        /// Location of the database.
        database: String,
        /// Schema version of the database.
        found: i64,
        /// Newest schema version known to this library.
        known: i64,
    },
    /// There is no space left.
    #[error("there is no space left for the database {database}: {reason}; free some, or raise its limit")]
    Full {
        /// Location of the database.
        database: String,
        /// Details.
        reason: String,
    },
    /// The database cannot be written.
    #[error("the database {database} cannot be written: {reason}; check its permissions")]
    ReadOnly {
        /// Location of the database.
        database: String,
        /// Details.
        reason: String,
    },
    /// The file, or one that SQLite keeps beside it, was removed or replaced while in use: further writes would go to a
    /// file that cannot be opened again.
    #[error(
        "the database {database} was removed or replaced while it was in use: {reason}; put it back, or restart the \
         program to begin a new one"
    )]
    Removed {
        /// Former location of the database.
        database: String,
        /// Details.
        reason: String,
    },
    /// Another process holds a lock, or made a conflicting change at the same time.
    #[error("the database {database} is locked by another process: {reason}; try again when that process has ended")]
    Locked {
        /// Location of the database.
        database: String,
        /// Details.
        reason: String,
    },
    /// The write was made together with others, one of which failed. It had no effect, and may succeed by itself.
    #[error("a write to the database {database} was rolled back with others: {reason}; try again")]
    RolledBack {
        /// Location of the database.
        database: String,
        /// Why the others failed.
        reason: String,
    },
    /// A time limit expired: for a connection, a statement, or the server's response.
    #[error("the database {database} did not answer in time: {reason}; try again, or raise the limit")]
    TimedOut {
        /// Location of the database.
        database: String,
        /// What timed out, and after how long.
        reason: String,
    },
    /// The database cannot be reached or opened.
    #[error("the database {database} cannot be reached: {reason}")]
    Unavailable {
        /// Location of the database.
        database: String,
        /// Details.
        reason: String,
    },
    /// Any other failure.
    #[error("the database {database} failed: {reason}")]
    Other {
        /// Location of the database.
        database: String,
        /// Details.
        reason: String,
    },
}

impl DatabaseError {
    /// Returns the database error that caused a journal to fail, if any.
    pub fn of_journal(error: &JournalError) -> Option<&Self> {
        match error {
            JournalError::Storage(source) | JournalError::Unavailable { source } => source.downcast_ref(),
            _ => None,
        }
    }

    /// Returns whether retrying the same call later may succeed without any other change.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::RolledBack { .. } | Self::TimedOut { .. } | Self::Unavailable { .. })
    }

    /// Returns the database error that caused a store to fail, if any.
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
