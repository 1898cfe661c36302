//! What errors of Postgres mean for whoever uses it.

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::error::{DatabaseError, Failure};

#[derive(Debug)]
pub(super) enum PgError {
    Query(tokio_postgres::Error),
    Pool(String),
    Damaged(String),
}

impl PgError {
    /// A column holds what no version of this library writes there.
    pub(super) fn damaged(reason: String) -> Failure<Self> {
        Failure::Database(Self::Damaged(reason))
    }

    pub(super) fn explain(&self, name: &str) -> DatabaseError {
        let database = name.to_owned();
        let error = match self {
            Self::Query(error) => error,
            Self::Pool(reason) => return DatabaseError::Unavailable { database, reason: reason.clone() },
            Self::Damaged(reason) => return DatabaseError::Damaged { database, reason: reason.clone() },
        };
        let Some(reported) = error.as_db_error() else {
            let mut reason = error.to_string();
            if let Some(source) = std::error::Error::source(error) {
                reason = format!("{reason}: {source}");
            }
            return if error.is_closed() || source_is_io(error) {
                DatabaseError::Unavailable { database, reason }
            } else {
                DatabaseError::Other { database, reason }
            };
        };
        let (code, reason) = (reported.code(), reported.to_string());
        if *code == SqlState::DISK_FULL || *code == SqlState::OUT_OF_MEMORY {
            DatabaseError::Full { database, reason }
        } else if *code == SqlState::READ_ONLY_SQL_TRANSACTION || *code == SqlState::INSUFFICIENT_PRIVILEGE {
            DatabaseError::ReadOnly { database, reason }
        } else if *code == SqlState::LOCK_NOT_AVAILABLE || *code == SqlState::T_R_DEADLOCK_DETECTED {
            DatabaseError::Locked { database, reason }
        } else if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED {
            DatabaseError::Damaged { database, reason }
        } else if ["08", "57", "28", "3D"].iter().any(|class| code.code().starts_with(class)) {
            DatabaseError::Unavailable { database, reason }
        } else {
            DatabaseError::Other { database, reason }
        }
    }
}

fn source_is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

impl From<tokio_postgres::Error> for Failure<PgError> {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(PgError::Query(error))
    }
}

impl From<PoolError> for Failure<PgError> {
    fn from(error: PoolError) -> Self {
        Self::Database(match error {
            PoolError::Backend(error) => PgError::Query(error),
            other => PgError::Pool(other.to_string()),
        })
    }
}
