//! What errors of Postgres mean for whoever uses it.

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::error::DatabaseError;

pub(super) fn explain(database: &str, error: &tokio_postgres::Error) -> DatabaseError {
    let database = database.to_owned();
    let Some(reported) = error.as_db_error() else {
        let source = std::error::Error::source(error);
        let reason = source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        return if error.is_closed() || source.is_some_and(|source| source.is::<std::io::Error>()) {
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

/// Why there is no connection.
pub(super) fn explain_pool(database: &str, error: &PoolError) -> DatabaseError {
    match error {
        PoolError::Backend(error) => explain(database, error),
        other => DatabaseError::Unavailable { database: database.to_owned(), reason: other.to_string() },
    }
}
