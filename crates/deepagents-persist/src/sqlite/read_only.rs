//! Opening a file for reading only, for when the file, its directory or the disk may not permit writes.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::SqliteOptions;
use super::open::{self, KNOWN};
use crate::error::DatabaseError;

/// Opens the single connection for reading.
pub(super) fn connection(path: &Path, options: &SqliteOptions) -> Result<Connection, DatabaseError> {
    let name = path.display().to_string();
    let explain = |error: rusqlite::Error| open::explain(&name, &error);
    let opened = open_shared(path, options).or_else(|error| open_exclusive(path, options).map_err(|_| error));
    let db = match opened {
        Err(_) if !has_wal(path) => open_immutable(path, options).map_err(explain)?,
        opened => opened.map_err(explain)?,
    };
    open::check_application_id(&db, &name)?;
    let found = db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).map_err(explain)?;
    if found > KNOWN {
        return Err(DatabaseError::NewerSchema { database: name, found, known: KNOWN });
    }
    if found < KNOWN {
        let reason = format!("it is from an earlier version and has to be upgraded first ({found} of {KNOWN})");
        return Err(DatabaseError::ReadOnly { database: name, reason });
    }
    Ok(db)
}

/// Opens the file while others may read and write it.
fn open_shared(path: &Path, options: &SqliteOptions) -> rusqlite::Result<Connection> {
    prepared(Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | NO_MUTEX)?, options)
}

/// Opens the file with the WAL index in memory, for when the index file cannot be created. Nobody else can use the file
/// meanwhile.
fn open_exclusive(path: &Path, options: &SqliteOptions) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | NO_MUTEX)?;
    db.pragma_update(None, "locking_mode", "exclusive")?;
    prepared(db, options)
}

/// Opens the file as immutable, without looking for auxiliary files.
fn open_immutable(path: &Path, options: &SqliteOptions) -> rusqlite::Result<Connection> {
    let escaped = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | NO_MUTEX;
    prepared(Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags)?, options)
}

const NO_MUTEX: OpenFlags = OpenFlags::SQLITE_OPEN_NO_MUTEX;

fn prepared(db: Connection, options: &SqliteOptions) -> rusqlite::Result<Connection> {
    db.busy_timeout(options.wait)?;
    db.pragma_update(None, "query_only", true)?;
    db.set_prepared_statement_cache_capacity(32);
    // Opening is lazy: only the first read shows whether the file is readable.
    db.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
    Ok(db)
}

/// Returns whether the WAL may contain data that is not yet in the file.
#[allow(clippy::disallowed_methods, reason = "the database looks at its own file")]
fn has_wal(path: &Path) -> bool {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    std::fs::metadata(Path::new(&wal)).is_ok_and(|found| found.len() > 0)
}
