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

/// Threads and long-term memory in one SQLite file, for one machine: several processes may use it at once.
///
/// One thread of the process writes; what comes while it writes is committed together. At most eight calls read at once,
/// more wait. The file is in WAL mode and readable by its owner alone; it shrinks after deletions, when nothing was
/// written for a moment (a file of an earlier version does so after one `VACUUM` with `auto_vacuum = incremental`). A
/// clone is the same database. Where the file is removed or replaced meanwhile, calls fail with [`DatabaseError::Removed`].
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
    /// When the operating system has it: it survives the end of the process, but if the machine fails the last moments
    /// may be lost. Nothing is ever damaged.
    #[default]
    Normal,
    /// When the disk has it.
    Full,
}

/// SQLite counts the milliseconds that it waits in 32 bits.
const MAX_WAIT: std::time::Duration = std::time::Duration::from_secs(24 * 24 * 60 * 60);

/// How a [`Sqlite`] is opened.
#[derive(Clone)]
#[must_use]
pub struct SqliteOptions {
    synchronous: Synchronous,
    max_bytes: Option<u64>,
    wait: std::time::Duration,
    clock: Arc<dyn Clock>,
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
    /// When a commit counts as durable; [`Synchronous::Normal`] by default.
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Lets the file grow to about so many bytes and no further.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// How long to wait for another process that keeps the file locked; 5 seconds by default, 24 days at most.
    pub fn wait(mut self, wait: std::time::Duration) -> Self {
        self.wait = wait.min(MAX_WAIT);
        self
    }

    /// Tells the time, for times of records, leases and times to live.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Opens a database, or begins one where there is no file. Its folder must exist.
    ///
    /// # Errors
    /// When the file is not a database of this library or of a newer version, or cannot be used.
    pub async fn open(self, path: impl AsRef<Path>) -> Result<Sqlite, DatabaseError> {
        self.start(path.as_ref(), SqliteEngine::start).await
    }

    /// Opens a database that is there to be read alone: also where the file, its directory or a full disk lets nothing be
    /// written. One call reads at a time, and writes fail.
    ///
    /// # Errors
    /// As those of [`open`](Self::open); also where there is no file, and where it is of an earlier version.
    pub async fn open_read_only(self, path: impl AsRef<Path>) -> Result<Sqlite, DatabaseError> {
        self.start(path.as_ref(), SqliteEngine::start_read_only).await
    }

    async fn start(
        self,
        path: &Path,
        open: impl FnOnce(&Path, Self) -> Result<SqliteEngine, DatabaseError> + Send + 'static,
    ) -> Result<Sqlite, DatabaseError> {
        // Connections are opened later too, when the process may have gone to another folder.
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
    /// Opens a database with the default options, or begins one where there is no file. Its folder must exist.
    ///
    /// # Errors
    /// When the file is not a database of this library or of a newer version, or cannot be used.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, DatabaseError> {
        Self::options().open(path).await
    }

    /// Options to open a database with.
    pub fn options() -> SqliteOptions {
        SqliteOptions::default()
    }

    /// Checks the whole file, and reads all threads and items.
    ///
    /// # Errors
    /// [`DatabaseError::Damaged`] with everything that was found.
    pub async fn check(&self) -> Result<(), DatabaseError> {
        check::find_damage(&*self.engine).await
    }
}
