//! Configuration and garbage collection of the undo database.

use std::path::PathBuf;

use deepagents_core::state::State;

use super::cursor::{FileUndo, ThreadLog};
use super::{Database, UndoCursor, UndoError};

/// Location and limits of the undo database.
///
/// One SQLite file serves any number of workspaces, threads and processes. It must lie outside the workspaces. It grows
/// with the changes that runs make; [`UndoStore::gc`] removes the data of deleted threads. All methods block the
/// calling thread.
///
/// ```
/// use deepagents_fs::{LocalBackend, LocalOptions, UndoStore};
/// # let (files, undo) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// let undo = UndoStore { max_file: 1 << 20, ..UndoStore::at(undo.path().join("undo.db")) };
/// let backend = LocalBackend::open_with(files.path(), LocalOptions { undo: Some(undo), ..LocalOptions::default() })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct UndoStore {
    /// The database file.
    pub file: PathBuf,
    /// Maximum size in bytes of a file whose content is recorded; 32 MiB by default. Changes to larger files are
    /// allowed but cannot be undone.
    pub max_file: u64,
    /// Maximum number of bytes recorded when a directory is deleted as a whole; 256 MiB by default.
    pub max_tree: u64,
    /// Maximum number of files recorded when a directory is deleted as a whole; 10,000 by default.
    pub max_tree_files: usize,
}

impl UndoStore {
    /// Creates a store with default limits. The file and its parent directories are created when there is something to
    /// record.
    pub fn at(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), max_file: 32 << 20, max_tree: 256 << 20, max_tree_files: 10_000 }
    }

    /// Deletes the logs of threads for which `lives` returns `false`, and all contents that no log references.
    ///
    /// Concurrent runs lose nothing, provided that `lives` knows of threads that were just created: look each thread up
    /// when asked rather than in a list made earlier.
    ///
    /// # Errors
    /// Returns an error if the database cannot be read or written.
    pub fn gc(&self, mut lives: impl FnMut(&str) -> bool) -> Result<GcStats, UndoError> {
        let database = Database::new(self)?;
        let Some(mut logs) = database.read(|tx| tx.logs())? else { return Ok(GcStats::default()) };
        logs.retain(|(_, thread)| !lives(thread));
        let stats = database.write(false, |tx| tx.gc(&logs))?;
        database.shrink()?;
        Ok(stats)
    }

    /// Gives a copied thread its own log of the changes made before the copy, so that it no longer depends on its
    /// source. `state` is the state of the copy. A copy that runs does this by itself when it first changes a file.
    ///
    /// # Errors
    /// Returns an error if the database cannot be read or written.
    pub fn adopt(&self, thread: &str, state: &State) -> Result<(), UndoError> {
        let (Some(database), Some(cursor)) = (self.existing()?, state.get::<FileUndo>()) else { return Ok(()) };
        database.write(false, |tx| {
            for directory in cursor.directories() {
                if let Some(log) = ThreadLog::of_thread(state, directory, thread) {
                    tx.append(&log, &[])?;
                }
            }
            Ok(())
        })
    }

    /// Deletes the entries that are not needed to return to `here`, the thread's current state, or to any state in
    /// `others`. The next [`gc`](Self::gc) deletes contents that no log references any more.
    ///
    /// # Errors
    /// Returns an error if the database cannot be read or written.
    pub fn trim<'a>(&self, here: &'a State, others: impl IntoIterator<Item = &'a State>) -> Result<(), UndoError> {
        let (Some(database), Some(cursor)) = (self.existing()?, here.get::<FileUndo>()) else { return Ok(()) };
        let others: Vec<Option<&UndoCursor>> = others.into_iter().map(State::get::<FileUndo>).collect();
        database.write(false, |tx| {
            for directory in cursor.directories() {
                let Some(log) = ThreadLog::in_state(here, directory) else { continue };
                let last = |cursor: &Option<&UndoCursor>| cursor.map_or(0, |cursor| cursor.last(directory));
                tx.trim(&log, others.iter().map(last).min().unwrap_or(log.last).min(log.last))?;
            }
            Ok(())
        })
    }

    /// Returns the database, if its file exists.
    fn existing(&self) -> Result<Option<Database>, UndoError> {
        Ok(Some(Database::new(self)?).filter(Database::exists))
    }
}

/// Counts of what [`UndoStore::gc`] deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcStats {
    /// Number of logs; a thread has one for each directory.
    pub logs: usize,
    /// Number of file contents.
    pub contents: usize,
    /// Total size of these contents in bytes.
    pub bytes: u64,
}
