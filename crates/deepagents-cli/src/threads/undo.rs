//! What is recorded of the files that runs change: a database beside that of the threads.

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

/// The file; none where the database has no name.
pub(crate) fn file(given: &Database) -> Result<Option<PathBuf>> {
    let database = database::place(given)?;
    Ok(database.file_name().map(|name| {
        let mut undo = OsString::from(name);
        undo.push(".undo");
        database.with_file_name(undo)
    }))
}

/// Whether it lies inside of a directory that an agent works in, where nothing can be recorded.
pub(crate) fn is_inside(file: &Path, root: &Path) -> bool {
    let Ok(root) = root.canonicalize() else { return false };
    let Ok(file) = std::path::absolute(file) else { return false };
    file.ancestors().find_map(|above| above.canonicalize().ok()).is_some_and(|above| above.starts_with(&root))
}

/// Does something with it that takes a while.
async fn blocking<T: Send + 'static>(
    store: &UndoStore,
    work: impl FnOnce(&UndoStore) -> Result<T, UndoError> + Send + 'static,
) -> Result<T> {
    let store = store.clone();
    let done = tokio::task::spawn_blocking(move || work(&store)).await?;
    done.map_err(|error| anyhow!("what is kept of changed files cannot be read or changed: {error}"))
}

/// Gives a copy of a thread its own log.
pub(crate) async fn adopt(store: Option<&UndoStore>, threads: &ThreadAccess, thread: &str) -> Result<()> {
    let Some(store) = store else { return Ok(()) };
    let (state, thread) = (threads.state(thread).await?, thread.to_owned());
    blocking(store, move |store| store.adopt(&thread, &state)).await
}

/// Removes what belongs to threads that are no more, and what no thread needs.
pub(crate) async fn gc(store: Option<&UndoStore>, journal: Arc<dyn Journal>) -> Result<()> {
    let Some(store) = store else { return Ok(()) };
    let runtime = tokio::runtime::Handle::current();
    let failed = blocking(store, move |store| {
        let mut failed = Ok(());
        // Looked up one by one, as another process may begin a thread at any moment.
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

/// Forgets what is needed only to go back to positions that a thread does not have any more.
pub(super) async fn trim(store: Option<&UndoStore>, threads: &ThreadAccess, thread: &str) -> Result<()> {
    let Some(store) = store else { return Ok(()) };
    let here = threads.state(thread).await?;
    let checkpoints = threads.history(thread, None, usize::MAX).await?;
    let mut others: Vec<State> = Vec::new();
    // Files are further on at each checkpoint than at the one before, but for where the thread went back.
    let back = checkpoints.iter().filter(|checkpoint| checkpoint.origin == CheckpointSource::Rewind);
    for checkpoint in back.chain(checkpoints.last()) {
        others.push(threads.state_at(thread, checkpoint.position).await?);
    }
    blocking(store, move |store| store.trim(&here, &others)).await
}
