//! Where changes are recorded, and what is removed from there.

use std::path::PathBuf;

use deepagents_core::state::State;

use super::cursor::{FileUndo, ThreadLog};
use super::{Database, UndoCursor, UndoError};

/// Where what runs change is recorded, and how much of it.
///
/// One SQLite file serves any number of workspaces, threads and processes; it must lie outside of the workspaces. It
/// grows with what runs change; [`UndoStore::gc`] removes what belongs to threads that are no more. These methods block
/// the thread that they are called on.
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
    /// Bytes of the largest file whose content is recorded; 32 MiB by default. A larger one can be changed, and the
    /// change not be undone.
    pub max_file: u64,
    /// Bytes that are recorded of a directory deleted as a whole; 256 MiB by default.
    pub max_tree: u64,
    /// Files that are recorded of a directory deleted as a whole; 10,000 by default.
    pub max_tree_files: usize,
}

impl UndoStore {
    /// Records in a database file, which is created with the directories above it when there is something to record.
    pub fn at(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), max_file: 32 << 20, max_tree: 256 << 20, max_tree_files: 10_000 }
    }

    /// Removes the logs of threads of which `lives` says no, and all contents that no log needs. Runs that change files
    /// meanwhile lose nothing; but `lives` must know of threads that began a moment ago, so look each up when it is
    /// asked about instead of in a list from before.
    ///
    /// # Errors
    /// When the database cannot be read or changed.
    pub fn gc(&self, mut lives: impl FnMut(&str) -> bool) -> Result<GcStats, UndoError> {
        let database = Database::new(self)?;
        let Some(mut logs) = database.read(|tx| tx.logs())? else { return Ok(GcStats::default()) };
        logs.retain(|(_, thread)| !lives(thread));
        let stats = database.write(false, |tx| tx.gc(&logs))?;
        database.shrink()?;
        Ok(stats)
    }

    /// Gives a copy of a thread its own log of what was changed before it was made, so that it does not depend on the
    /// thread it was copied from. `state` is the copy's. A copy that runs does this when it first changes a file.
    ///
    /// # Errors
    /// When the database cannot be read or changed.
    pub fn adopt(&self, thread: &str, state: &State) -> Result<(), UndoError> {
        let (database, cursor) = (Database::new(self)?, state.get::<FileUndo>());
        if !database.exists() {
            return Ok(());
        }
        database.write(false, |tx| {
            for directory in cursor.iter().flat_map(|cursor| cursor.directories()) {
                if let Some(log) = ThreadLog::of_thread(state, directory, thread) {
                    tx.append(&log, &[])?;
                }
            }
            Ok(())
        })
    }

    /// Forgets what is needed only to go back further than to any of these states of a thread, whose present state is
    /// `here`. Contents that no log needs are removed by the next [`gc`](Self::gc).
    ///
    /// # Errors
    /// When the database cannot be read or changed.
    pub fn trim<'a>(&self, here: &'a State, others: impl IntoIterator<Item = &'a State>) -> Result<(), UndoError> {
        let (database, Some(cursor)) = (Database::new(self)?, here.get::<FileUndo>()) else { return Ok(()) };
        if !database.exists() {
            return Ok(());
        }
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
}

/// What [`UndoStore::gc`] removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcStats {
    /// Logs of threads in directories.
    pub logs: usize,
    /// Contents.
    pub contents: usize,
    /// Bytes of these contents.
    pub bytes: u64,
}
