//! The SQLite file: schema, settings and transactions.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::UndoStore;

/// How long to wait for another process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay between attempts to open a locked file.
const RETRY_DELAY: Duration = Duration::from_millis(5);

/// Application ID of this library's files with this schema; a later schema uses another number.
const APPLICATION_ID: i64 = 0x6461_6701;
const SCHEMA: &str = "
    CREATE TABLE log (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        thread TEXT NOT NULL,
        directory TEXT NOT NULL,
        next INTEGER NOT NULL,
        UNIQUE (id, thread, directory)
    ) STRICT;
    CREATE TABLE change (
        log INTEGER NOT NULL REFERENCES log ON DELETE CASCADE,
        seq INTEGER NOT NULL,
        at INTEGER NOT NULL,
        actor TEXT NOT NULL,
        path TEXT NOT NULL,
        before TEXT NOT NULL,
        after TEXT NOT NULL,
        done INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (log, seq)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE content (
        key INTEGER PRIMARY KEY,
        hash TEXT NOT NULL UNIQUE,
        body BLOB NOT NULL
    ) STRICT;
";

/// The undo database cannot be used. The message names no host path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the undo database cannot be used: {0}")]
pub struct UndoError(String);

impl From<rusqlite::Error> for UndoError {
    fn from(error: rusqlite::Error) -> Self {
        // SQLite's message may name the file; its error code does not.
        Self(error.sqlite_error().map_or_else(|| error.to_string(), ToString::to_string))
    }
}

impl From<io::Error> for UndoError {
    fn from(error: io::Error) -> Self {
        Self(error.kind().to_string())
    }
}

/// The database of an [`UndoStore`], opened on first use. All methods block.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) options: UndoStore,
    open: Mutex<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    db: Connection,
    /// Device and inode of the opened file, so that a deleted or replaced file is no longer written to.
    inode: (u64, u64),
    synced: bool,
}

/// A transaction. Its operations are in `log.rs`.
#[derive(Debug)]
pub(crate) struct Tx<'a>(pub(super) Transaction<'a>);

impl Database {
    pub(crate) fn new(options: &UndoStore) -> io::Result<Self> {
        let file = real(&std::path::absolute(&options.file)?)?;
        Ok(Self { options: UndoStore { file, ..options.clone() }, open: Mutex::new(None) })
    }

    pub(crate) fn exists(&self) -> bool {
        self.options.file.exists()
    }

    /// Runs a read transaction. Returns `None` if the file does not exist.
    pub(crate) fn read<T, E: From<UndoError>>(
        &self,
        work: impl FnOnce(&Tx<'_>) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        if !self.exists() {
            return Ok(None);
        }
        self.transaction(TransactionBehavior::Deferred, false, work).map(Some)
    }

    /// Runs a write transaction, serialised with all other writers. With `sync`, the commit has reached the disk on
    /// return; without it, the commit survives a crash of the process but perhaps not of the machine.
    pub(crate) fn write<T, E: From<UndoError>>(
        &self,
        sync: bool,
        work: impl FnOnce(&Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transaction(TransactionBehavior::Immediate, sync, work)
    }

    fn transaction<T, E: From<UndoError>>(
        &self,
        behavior: TransactionBehavior,
        sync: bool,
        work: impl FnOnce(&Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let sql = |error: rusqlite::Error| E::from(error.into());
        let open = self.current(&mut open)?;
        if open.synced != sync {
            open.db.pragma_update(None, "synchronous", if sync { "full" } else { "normal" }).map_err(sql)?;
            open.synced = sync;
        }
        let tx = Tx(open.db.transaction_with_behavior(behavior).map_err(sql)?);
        let done = work(&tx)?;
        tx.0.commit().map_err(sql)?;
        Ok(done)
    }

    /// Returns the connection, and reopens it if the file was replaced.
    fn current<'a>(&self, open: &'a mut Option<Open>) -> Result<&'a mut Open, UndoError> {
        let there = std::fs::metadata(&self.options.file).map(|meta| (meta.dev(), meta.ino())).ok();
        match open.take().filter(|open| Some(open.inode) == there) {
            Some(same) => Ok(open.insert(same)),
            None => Ok(open.insert(self.connect()?)),
        }
    }

    fn connect(&self) -> Result<Open, UndoError> {
        let file = &self.options.file;
        create_private(file)?;
        let meta = std::fs::metadata(file)?;
        let until = Instant::now() + BUSY_TIMEOUT;
        loop {
            match prepare(file) {
                // SQLite does not wait for a concurrent process that is switching a new database to WAL mode.
                Err(error) if is_busy(&error) && Instant::now() < until => std::thread::sleep(RETRY_DELAY),
                db => {
                    let db =
                        db?.ok_or_else(|| UndoError("it belongs to another program or to a newer version".to_owned()))?;
                    return Ok(Open { db, inode: (meta.dev(), meta.ino()), synced: false });
                }
            }
        }
    }

    /// Returns freed space to the file system.
    pub(super) fn shrink(&self) -> Result<(), UndoError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let db = &self.current(&mut open)?.db;
        for sql in ["PRAGMA incremental_vacuum", "PRAGMA wal_checkpoint(TRUNCATE)"] {
            let mut statement = db.prepare(sql)?;
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
        }
        Ok(())
    }
}

/// Creates the file with permissions for the user only, as it holds file contents. SQLite gives the files it creates
/// beside it the same permissions.
fn create_private(file: &Path) -> io::Result<()> {
    /// Closing a file releases the locks that any connection of the same process holds on it, so close it before a
    /// connection opens it.
    static CREATING: Mutex<()> = Mutex::new(());
    let _creating = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(above) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(above)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Opens a database, creating the schema in an empty file. Returns `None` if the file belongs to another application or
/// schema version.
fn prepare(file: &Path) -> rusqlite::Result<Option<Connection>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(file, flags)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    let empty = is_empty(&db)?;
    if empty {
        // Takes effect only before the first write.
        db.pragma_update(None, "auto_vacuum", "incremental")?;
        db.pragma_update(None, "journal_mode", "wal")?;
    }
    db.pragma_update(None, "synchronous", "normal")?;
    db.pragma_update(None, "foreign_keys", true)?;
    if empty {
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have created the schema in the meantime.
        if is_empty(&tx)? {
            tx.execute_batch(SCHEMA)?;
            tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        }
        tx.commit()?;
    }
    let application: i64 = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
    Ok((application == APPLICATION_ID).then_some(db))
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

fn is_empty(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

/// Resolves the links of a path as far as it exists.
fn real(path: &Path) -> io::Result<PathBuf> {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Err(error), Some(parent), Some(name)) if error.kind() == ErrorKind::NotFound => Ok(real(parent)?.join(name)),
        (result, ..) => result,
    }
}
