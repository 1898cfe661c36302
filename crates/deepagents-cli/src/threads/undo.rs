//! The undo database for files that runs change, next to the thread database.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::State;
use deepagents::core::agent::ThreadAccess;
use deepagents::core::journal::{CheckpointSource, Journal};
use deepagents::fs::{UndoError, UndoStore};

use super::database;
use crate::args::Database;
use crate::own_files::real;

/// Returns its path; `None` if the thread database has no file name.
pub(crate) fn file(given: &Database) -> Result<Option<PathBuf>> {
    let database = database::place(given)?;
    Ok(database.file_name().map(|name| {
        let mut undo = OsString::from(name);
        undo.push(".undo");
        database.with_file_name(undo)
    }))
}

/// Whether it lies inside a directory that an agent works in; nothing can be recorded then.
fn is_inside(file: &Path, root: &Path) -> bool {
    root.canonicalize().is_ok_and(|root| real(file).is_some_and(|file| file.starts_with(root)))
}

/// Returns the store for changes in a directory, or a remark on why there is none.
pub(crate) fn store_for(given: &Database, root: &Path) -> Result<(Option<UndoStore>, Option<&'static str>)> {
    Ok(match file(given)? {
        Some(file) if is_inside(&file, root) => (
            None,
            Some(
                "changes to files cannot be undone later: the database is inside the directory; choose another with --db",
            ),
        ),
        file => (file.map(UndoStore::at), None),
    })
}

/// Runs a blocking operation on it.
async fn blocking<T: Send + 'static>(
    store: &UndoStore,
    work: impl FnOnce(&UndoStore) -> Result<T, UndoError> + Send + 'static,
) -> Result<T> {
    let store = store.clone();
    let done = tokio::task::spawn_blocking(move || work(&store)).await?;
    done.map_err(|error| anyhow!("the undo history of files cannot be read or changed: {error}"))
}

/// Gives a copied thread its own undo log.
pub(crate) async fn adopt(store: Option<&UndoStore>, threads: &ThreadAccess, thread: &str) -> Result<()> {
    let Some(store) = store else { return Ok(()) };
    let (state, thread) = (threads.state(thread).await?, thread.to_owned());
    blocking(store, move |store| store.adopt(&thread, &state)).await
}

/// Removes the data of deleted threads, and what no thread needs any more.
pub(crate) async fn gc(store: Option<&UndoStore>, journal: Arc<dyn Journal>) -> Result<()> {
    let Some(store) = store else { return Ok(()) };
    let runtime = tokio::runtime::Handle::current();
    let failed = blocking(store, move |store| {
        let mut failed = Ok(());
        // Threads are looked up one by one, because another process may start one at any moment.
        store.gc(|thread| match runtime.block_on(journal.threads().get(thread)) {
            Ok(found) => found.is_some(),
            Err(error) => {
                failed = Err(error);
                true
            }
        })?;
        Ok(failed)
    });
    Ok(failed.await??)
}

/// Removes data that is needed only for positions that the thread no longer has.
pub(super) async fn trim(store: Option<&UndoStore>, threads: &ThreadAccess, thread: &str) -> Result<()> {
    let Some(store) = store else { return Ok(()) };
    let here = threads.state(thread).await?;
    let checkpoints = threads.history(thread, None, usize::MAX).await?;
    let mut others: Vec<State> = Vec::new();
    // Between checkpoints, files only move forward, except where the thread was rewound.
    let back = checkpoints.iter().filter(|checkpoint| checkpoint.origin == CheckpointSource::Rewind);
    for checkpoint in back.chain(checkpoints.last()) {
        others.push(threads.state_at(thread, checkpoint.position).await?);
    }
    blocking(store, move |store| store.trim(&here, &others)).await
}
