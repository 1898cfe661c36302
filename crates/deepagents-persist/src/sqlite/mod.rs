//! Threads and long-term memory in one SQLite file.

mod engine;
mod executor;
mod file_identity;
mod open;
mod read_only;
mod writer;

use std::path::Path;
use std::sync::Arc;

use deepagents_core::env::{Clock, SystemClock};

use crate::check;
use crate::database::Database;
use crate::error::DatabaseError;
pub use engine::SqliteEngine;

/// Threads and long-term memory in one SQLite file, for one machine. Several processes may use it at once.
///
/// One thread of the process writes, and commits writes that arrive in the meantime together. At most eight calls read
/// concurrently; further ones wait. Clones share the database.
///
/// The file is in WAL mode and accessible only to its owner. It shrinks after deletions, once there has been no write
/// for a moment. A file created by an earlier version does so after one `VACUUM` with `auto_vacuum = incremental`. If
/// the file is removed or replaced while in use, calls fail with [`DatabaseError::Removed`].
///
/// ```
/// use deepagents_core::store::Store;
/// use deepagents_persist::Sqlite;
/// use serde_json::json;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("agent.db");
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let database = Sqlite::open(path).await?;
/// database.put(&["notes".to_owned()], "city", json!("Turin")).await?;
/// database.check().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub type Sqlite = Database<SqliteEngine>;

/// When a commit counts as durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// Once the operating system has it. It survives the end of the process, but a failure of the machine may lose the
    /// most recent commits. The database is never damaged.
    #[default]
    Normal,
    /// Once the disk has it.
    Full,
}

/// SQLite stores its busy timeout as 32-bit milliseconds.
const MAX_BUSY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(24 * 24 * 60 * 60);

/// Options for opening [`Sqlite`].
#[derive(Clone)]
pub struct SqliteOptions {
    /// When a commit counts as durable, [`Synchronous::Normal`] by default.
    pub synchronous: Synchronous,
    /// Limits the file to about this many bytes.
    pub max_bytes: Option<u64>,
    /// How long to wait while another process has the file locked, 5 seconds by default, 24 days at most.
    pub wait: std::time::Duration,
    /// The clock for record times, leases and times to live.
    pub clock: Arc<dyn Clock>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::Normal,
            max_bytes: None,
            wait: std::time::Duration::from_secs(5),
            clock: Arc::new(SystemClock),
        }
    }
}

impl SqliteOptions {
    /// Opens a database, or creates it if the file does not exist. Its directory must exist.
    ///
    /// # Errors
    /// Returns an error if the file is not a database of this library, is of a newer version, or cannot be used.
    pub async fn open(self, path: impl AsRef<Path>) -> Result<Sqlite, DatabaseError> {
        self.start(path.as_ref(), SqliteEngine::start).await
    }

    /// Opens an existing database for reading only, even if the file, its directory or a full disk prevents writes. One
    /// call reads at a time, and writes fail.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`open`](Self::open), and if the file does not exist or is of an earlier
    /// version.
    pub async fn open_read_only(self, path: impl AsRef<Path>) -> Result<Sqlite, DatabaseError> {
        self.start(path.as_ref(), SqliteEngine::start_read_only).await
    }

    async fn start(
        mut self,
        path: &Path,
        open: impl FnOnce(&Path, Self) -> Result<SqliteEngine, DatabaseError> + Send + 'static,
    ) -> Result<Sqlite, DatabaseError> {
        self.wait = self.wait.min(MAX_BUSY_TIMEOUT);
        // Further connections open later, when the process may have changed its working directory.
        let path = std::path::absolute(path).map_err(|error| DatabaseError::Unavailable {
            database: path.display().to_string(),
            reason: error.to_string(),
        })?;
        let opened = tokio::task::spawn_blocking(move || open(&path, self)).await;
        let failed =
            |error: tokio::task::JoinError| DatabaseError::Other { database: String::new(), reason: error.to_string() };
        Ok(Database { engine: Arc::new(opened.map_err(failed)??) })
    }
}

impl std::fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("synchronous", &self.synchronous)
            .field("max_bytes", &self.max_bytes)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

impl Sqlite {
    /// Opens a database with the default options, or creates it if the file does not exist. Its directory must exist.
    ///
    /// # Errors
    /// Returns an error if the file is not a database of this library, is of a newer version, or cannot be used.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, DatabaseError> {
        SqliteOptions::default().open(path).await
    }

    /// Closes the file once the calls that run have finished, even if the caller stops waiting for that. Calls through
    /// this or any clone fail afterwards.
    ///
    /// Without it the file is closed in the background after the last clone is dropped. Close it before the file is
    /// moved, copied or removed: SQLite removes the WAL when it closes, by its name.
    pub async fn close(&self) {
        self.engine.close().await;
    }

    /// Checks the integrity of the whole file, and reads all threads and items.
    ///
    /// # Errors
    /// Returns [`DatabaseError::Damaged`], listing all damage found.
    pub async fn check(&self) -> Result<(), DatabaseError> {
        check::find_damage(&*self.engine).await
    }
}
