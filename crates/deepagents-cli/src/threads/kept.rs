//! What is kept of the files that runs change: a directory beside the database.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::core::journal::{Journal, Origin};
use deepagents::fs::Keep;
use deepagents::{DeepAgent, State};

use super::database;
use crate::args::Database;

/// The directory; none where the database has no name.
pub(crate) fn place(given: &Database) -> Result<Option<PathBuf>> {
    let database = database::place(given)?;
    Ok(database.file_name().map(|name| {
        let mut kept = OsString::from(name);
        kept.push(".kept");
        database.with_file_name(kept)
    }))
}

/// Whether it lies inside of a directory that an agent works in, where nothing can be kept.
pub(crate) fn is_inside(kept: &Path, root: &Path) -> bool {
    let Ok(root) = root.canonicalize() else { return false };
    let Ok(kept) = std::path::absolute(kept) else { return false };
    kept.ancestors().find_map(|above| above.canonicalize().ok()).is_some_and(|above| above.starts_with(&root))
}

/// Does something with it that takes a while.
async fn blocking<T: Send + 'static>(
    keep: &Keep,
    work: impl FnOnce(&Keep) -> std::io::Result<T> + Send + 'static,
) -> Result<T> {
    let keep = keep.clone();
    let done = tokio::task::spawn_blocking(move || work(&keep)).await?;
    done.map_err(|error| anyhow!("what is kept of changed files cannot be read or changed: {error}"))
}

/// Gives a copy of a thread its own share.
pub(super) async fn adopt(keep: Option<&Keep>, agent: &DeepAgent, thread: &str) -> Result<()> {
    let Some(keep) = keep else { return Ok(()) };
    let (state, thread) = (agent.state(thread).await?, thread.to_owned());
    blocking(keep, move |keep| keep.adopt(&thread, &state)).await
}

/// Removes what belongs to threads that are no more, and what no thread needs.
pub(super) async fn sweep(keep: Option<&Keep>, journal: Arc<dyn Journal>) -> Result<()> {
    let Some(keep) = keep else { return Ok(()) };
    let runtime = tokio::runtime::Handle::current();
    let failed = blocking(keep, move |keep| {
        let mut failed = Ok(());
        // Looked up one by one, as another process may begin a thread at any moment.
        keep.sweep(|thread| match runtime.block_on(journal.threads().get(thread)) {
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
pub(super) async fn trim(keep: Option<&Keep>, agent: &DeepAgent, thread: &str) -> Result<()> {
    let Some(keep) = keep else { return Ok(()) };
    let here = agent.state(thread).await?;
    let checkpoints = agent.agent().history(thread, None, usize::MAX).await?;
    let mut others: Vec<State> = Vec::new();
    // Files are further on at each checkpoint than at the one before, but for where the thread went back.
    let back = checkpoints.iter().filter(|checkpoint| checkpoint.origin == Origin::Rewind);
    for checkpoint in back.chain(checkpoints.last()) {
        others.push(agent.agent().state_at(thread, checkpoint.position).await?);
    }
    blocking(keep, move |keep| keep.trim(&here, &others)).await
}
