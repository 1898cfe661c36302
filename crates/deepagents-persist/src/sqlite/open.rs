//! Opening a file: checks its ownership, and applies settings and migrations.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{SqliteOptions, Synchronous};
use crate::error::DatabaseError;
use crate::schema::STEADY;

/// Application ID that marks files of this library.
const APPLICATION_ID: i64 = 0x6461_6774;

/// Page size. Small records waste little space in a page of this size, and large ones need few pages.
const PAGE_BYTES: i64 = 8192;

/// WAL size in pages that triggers a checkpoint: 4 MB.
const WAL_PAGES: i64 = 512;

/// Delay between attempts to open a locked file.
const RETRY_DELAY: Duration = Duration::from_millis(5);

/// The migrations from an empty file to the current schema. The schema's version is the number applied.
const MIGRATIONS: [&str; 7] = [FIRST, KEYS, PARENTS, VERSIONS, STEADY, TIMES, STOPS];

/// The newest schema version this library knows.
pub(super) const KNOWN: i64 = MIGRATIONS.len() as i64;

const FIRST: &str = "
    CREATE TABLE epoch (last INTEGER NOT NULL) STRICT;
    INSERT INTO epoch VALUES (0);
    CREATE TABLE thread (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        head INTEGER NOT NULL DEFAULT 0,
        status TEXT NOT NULL DEFAULT 'empty',
        epoch INTEGER NOT NULL DEFAULT 0,
        owner TEXT,
        lease_until INTEGER NOT NULL DEFAULT 0,
        metadata TEXT NOT NULL DEFAULT '{}',
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        ttl INTEGER,
        expires_at INTEGER,
        bytes INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX thread_expires ON thread (expires_at) WHERE expires_at IS NOT NULL;
    CREATE TABLE event (
        key INTEGER PRIMARY KEY,
        thread INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        position INTEGER NOT NULL,
        at INTEGER NOT NULL,
        status TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        how INTEGER NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (thread, position)
    ) STRICT;
    CREATE TABLE snapshot (
        key INTEGER PRIMARY KEY,
        thread INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        position INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        how INTEGER NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (thread, position)
    ) STRICT;
    CREATE TABLE blob (
        key INTEGER PRIMARY KEY,
        hash BLOB NOT NULL UNIQUE,
        body TEXT NOT NULL
    ) STRICT;
    CREATE TABLE blob_ref (
        thread INTEGER NOT NULL REFERENCES thread ON DELETE CASCADE,
        position INTEGER NOT NULL,
        snapshot INTEGER NOT NULL,
        hash BLOB NOT NULL,
        PRIMARY KEY (thread, position, snapshot, hash)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX blob_ref_hash ON blob_ref (hash);
    CREATE TABLE item (
        key INTEGER PRIMARY KEY,
        namespace BLOB NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        version INTEGER NOT NULL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        expires_at INTEGER,
        UNIQUE (namespace, name)
    ) STRICT;
    CREATE INDEX item_expires ON item (expires_at) WHERE expires_at IS NOT NULL;
";

/// A covering index lists keys, since the rows contain the values.
const KEYS: &str = "
    ALTER TABLE item ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
    UPDATE item SET size = octet_length(value);
    CREATE INDEX item_keys ON item (namespace, name, version, size, updated_at, expires_at);
";

/// Indexes for finding children by parent, and resumable threads by status.
const PARENTS: &str = "
    ALTER TABLE thread ADD COLUMN parent TEXT;
    CREATE INDEX thread_parent ON thread (parent, updated_at) WHERE parent IS NOT NULL;
    CREATE INDEX thread_claimable ON thread (updated_at, id) WHERE status IN ('empty', 'open');
";

/// Item versions are never reused.
const VERSIONS: &str = "
    CREATE TABLE deleted_version (last INTEGER NOT NULL) STRICT;
    INSERT INTO deleted_version VALUES (0);
    CREATE TRIGGER item_deleted AFTER DELETE ON item WHEN OLD.version > (SELECT last FROM deleted_version) BEGIN
        UPDATE deleted_version SET last = OLD.version;
    END;
";

/// The indexes for thread listings. The one by last change stores minutes, so that appends update it at most once a
/// minute. Threads of the same minute are sorted when they are read.
const TIMES: &str = "
    ALTER TABLE thread ADD COLUMN minute INTEGER NOT NULL DEFAULT 0;
    UPDATE thread SET minute = updated_at / 60000;
    CREATE INDEX thread_updated ON thread (minute);
    CREATE INDEX thread_created ON thread (created_at);
    CREATE TRIGGER thread_inserted AFTER INSERT ON thread BEGIN
        UPDATE thread SET minute = NEW.updated_at / 60000 WHERE key = NEW.key;
    END;
    CREATE TRIGGER thread_updated AFTER UPDATE OF updated_at ON thread WHEN NEW.updated_at / 60000 <> OLD.minute BEGIN
        UPDATE thread SET minute = NEW.updated_at / 60000 WHERE key = NEW.key;
    END;
";

/// Why the last run of a thread ended, also as of each record. Runs that ended before have no reason, and programs that
/// have the database open since before write none: then the reason of an earlier run is removed.
const STOPS: &str = "
    ALTER TABLE thread ADD COLUMN stop TEXT;
    ALTER TABLE event ADD COLUMN stop TEXT;
    CREATE TRIGGER thread_stop AFTER UPDATE OF status ON thread
    WHEN NEW.stop = OLD.stop AND NEW.status <> OLD.status BEGIN
        UPDATE thread SET stop = NULL WHERE key = NEW.key;
    END;
";

/// Opens the writing connection and migrates the schema. Blocks.
pub(super) fn writer(path: &Path, options: &SqliteOptions) -> Result<Connection, DatabaseError> {
    let until = Instant::now() + options.wait;
    loop {
        match open_once(path, options) {
            // When several processes create a database at once, SQLite's busy timeout does not cover the switch to WAL
            // mode.
            Err(DatabaseError::Locked { .. }) if Instant::now() < until => std::thread::sleep(RETRY_DELAY),
            opened => return opened,
        }
    }
}

fn open_once(path: &Path, options: &SqliteOptions) -> Result<Connection, DatabaseError> {
    let name = path.display().to_string();
    let explain = |error: rusqlite::Error| explain(&name, &error);
    create_private(path)?;
    let mut db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(explain)?;
    db.busy_timeout(options.wait).map_err(explain)?;
    // SQLite silently opens a file without write permission as read-only.
    if db.is_readonly("main").map_err(explain)? {
        return Err(DatabaseError::ReadOnly { database: name, reason: "the file is read-only".to_owned() });
    }
    check_application_id(&db, &name)?;
    prepare(&db, options).map_err(explain)?;
    match migrate(&mut db).map_err(explain)? {
        found if found > KNOWN => Err(DatabaseError::NewerSchema { database: name, found, known: KNOWN }),
        _ => Ok(db),
    }
}

/// Opens a connection for reading.
pub(super) fn reader(path: &Path, options: &SqliteOptions) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(options.wait)?;
    db.pragma_update(None, "query_only", true)?;
    db.set_prepared_statement_cache_capacity(32);
    Ok(db)
}

/// Creates the file if it does not exist, accessible only to its owner, since threads contain private data. SQLite's
/// auxiliary files get the same permissions.
#[allow(clippy::disallowed_methods, reason = "the database opens its own file")]
fn create_private(path: &Path) -> Result<(), DatabaseError> {
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            // SQLite treats a one-byte file as empty and would overwrite it.
            if std::fs::metadata(path).is_ok_and(|file| file.len() == 1) {
                let (database, reason) = (path.display().to_string(), "it is one byte long".to_owned());
                return Err(DatabaseError::Foreign { database, reason });
            }
            Ok(())
        }
        Err(error) => {
            let (database, reason) = (path.display().to_string(), error.to_string());
            Err(match error.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                    DatabaseError::Full { database, reason }
                }
                std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
                    DatabaseError::ReadOnly { database, reason }
                }
                _ => DatabaseError::Unavailable { database, reason },
            })
        }
    }
}

/// Rejects a file that is not ours, before anything in it is changed.
pub(super) fn check_application_id(db: &Connection, name: &str) -> Result<(), DatabaseError> {
    let explain = |error: rusqlite::Error| explain(name, &error);
    // Reads both in one snapshot, because another process may be creating this database.
    let db = db.unchecked_transaction().map_err(explain)?;
    let application: i64 = db.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(explain)?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).map_err(explain)?;
    if application == APPLICATION_ID || (application == 0 && tables == 0) {
        return Ok(());
    }
    let reason = format!("its application id is {application:#x} and it has {tables} tables and indexes");
    Err(DatabaseError::Foreign { database: name.to_owned(), reason })
}

fn prepare(db: &Connection, options: &SqliteOptions) -> rusqlite::Result<()> {
    let synchronous = match options.synchronous {
        Synchronous::Normal => "normal",
        Synchronous::Full => "full",
    };
    // A file can shrink only if `auto_vacuum` is set before its first table is created.
    db.execute_batch(&format!(
        "PRAGMA page_size = {PAGE_BYTES}; PRAGMA auto_vacuum = incremental; PRAGMA journal_mode = wal; PRAGMA synchronous = {synchronous};
         PRAGMA foreign_keys = true; PRAGMA wal_autocheckpoint = {WAL_PAGES};
         PRAGMA journal_size_limit = {}; PRAGMA trusted_schema = false",
        WAL_PAGES * PAGE_BYTES
    ))?;
    if let Some(bytes) = options.max_bytes {
        let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / PAGE_BYTES;
        db.pragma_update(None, "max_page_count", pages.max(1))?;
    }
    db.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Applies the missing migrations and returns the schema version.
fn migrate(db: &mut Connection) -> rusqlite::Result<i64> {
    let version = |db: &Connection| db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    let found = version(db)?;
    if found >= KNOWN {
        return Ok(found);
    }
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have migrated it first.
    let from = version(&change)?;
    for step in MIGRATIONS.iter().skip(usize::try_from(from).unwrap_or(usize::MAX)) {
        change.execute_batch(step)?;
    }
    if from < KNOWN {
        change.pragma_update(None, "application_id", APPLICATION_ID)?;
        change.pragma_update(None, "user_version", KNOWN)?;
    }
    change.commit()?;
    version(db)
}

/// Maps an error of SQLite to a [`DatabaseError`].
pub(super) fn explain(database: &str, error: &rusqlite::Error) -> DatabaseError {
    let (database, reason) = (database.to_owned(), error.to_string());
    if error.sqlite_error().is_some_and(|found| found.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE) {
        // The WAL index could not grow.
        return DatabaseError::Full { database, reason };
    }
    if error.sqlite_error().is_some_and(|found| found.extended_code == rusqlite::ffi::SQLITE_IOERR_WRITE)
        && let Some(limit) = file_limit()
    {
        // SQLite does not distinguish this from a failing disk.
        let reason = format!("{reason}, where no file may have more than {limit} bytes (`ulimit -f`)");
        return DatabaseError::Full { database, reason };
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt) => DatabaseError::Damaged { database, reason },
        Some(ErrorCode::NotADatabase) => DatabaseError::Foreign { database, reason },
        Some(ErrorCode::DiskFull) => DatabaseError::Full { database, reason },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => DatabaseError::ReadOnly { database, reason },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => DatabaseError::Locked { database, reason },
        Some(ErrorCode::CannotOpen) => DatabaseError::Unavailable { database, reason },
        _ => DatabaseError::Other { database, reason },
    }
}

/// Returns the maximum size in bytes of a file written by this process, if there is a limit and the kernel reports it.
#[allow(clippy::disallowed_methods, reason = "the kernel tells of limits in a file")]
fn file_limit() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    limits.lines().find_map(|line| line.strip_prefix("Max file size"))?.split_whitespace().next()?.parse().ok()
}
