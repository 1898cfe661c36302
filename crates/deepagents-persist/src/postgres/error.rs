//! Maps errors of Postgres to [`DatabaseError`].

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::error::SqlState;

use crate::error::DatabaseError;

/// Conflicts with another session: a lock that could not be acquired, a deadlock, a concurrent change to the same rows,
/// or a blob deleted while being referenced.
const BUSY: [SqlState; 4] = [
    SqlState::LOCK_NOT_AVAILABLE,
    SqlState::T_R_DEADLOCK_DETECTED,
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::FOREIGN_KEY_VIOLATION,
];

/// The connection failed, or the server is stopping, starting, out of connections, or has ended an idle transaction.
const UNAVAILABLE: [&str; 4] = ["08", "57", "53300", "25P03"];

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
    } else if BUSY.contains(code) {
        DatabaseError::Locked { database, reason }
    } else if *code == SqlState::QUERY_CANCELED {
        DatabaseError::TimedOut { database, reason }
    } else if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED {
        DatabaseError::Damaged { database, reason }
    } else if UNAVAILABLE.iter().any(|class| code.code().starts_with(class)) {
        DatabaseError::Unavailable { database, reason }
    } else {
        DatabaseError::Other { database, reason }
    }
}

/// Explains why no connection is available.
pub(super) fn explain_pool(database: &str, error: &PoolError) -> DatabaseError {
    match error {
        PoolError::Backend(error) => explain(database, error),
        PoolError::Timeout(TimeoutType::Wait) => DatabaseError::TimedOut {
            database: database.to_owned(),
            reason: "all connections of the pool were in use for the whole waiting time".to_owned(),
        },
        PoolError::Timeout(_) => DatabaseError::TimedOut {
            database: database.to_owned(),
            reason: "a new connection took too long".to_owned(),
        },
        other => DatabaseError::Unavailable { database: database.to_owned(), reason: other.to_string() },
    }
}
