//! Drops an overlay's changes.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use bytes::Bytes;
use deepagents_core::state::{State, Update};

use super::layer::{Named, Working, is_empty, named};
use super::{OverlayBackend, OverlayChange, OverlayChangeKind, is_marker, listed, marker};
use crate::{FsError, VPath, WriteMode};

impl OverlayBackend {
    /// Drops changes: all that [`changes`](Self::changes) returned, or some of them. The files are then those of the
    /// lower backend again. The lower backend is not changed.
    ///
    /// The returned update must be applied to the state, as that of a write. No run may write to the overlay meanwhile.
    ///
    /// # Errors
    /// Returns an error if the upper backend fails, or if a deletion is to be dropped while another file takes the place
    /// of what was deleted. Some of the changes may be dropped then; doing it again drops the rest.
    pub async fn discard(&self, state: &State, changes: &[OverlayChange]) -> Result<Update, FsError> {
        let mut working = Working::new(state);
        // A file that takes the place of a directory, or is in one that takes the place of a file, goes first.
        let mut changes: Vec<&OverlayChange> = changes.iter().collect();
        changes.sort_by_key(|change| (change.kind == OverlayChangeKind::Deleted, Reverse(&change.path)));
        for change in &changes {
            self.discard_one(&mut working, &change.path).await?;
        }
        let above: BTreeSet<VPath> = changes.iter().flat_map(|change| change.path.ancestors()).collect();
        for directory in above.iter().rev().filter(|directory| !directory.is_root()) {
            let is_directory = named(&*self.upper, &working.state, directory).await? == Named::Directory;
            if is_directory && is_empty(&*self.upper, &working.state, directory).await? {
                working.delete(&*self.upper, directory).await?;
            }
        }
        Ok(working.update)
    }

    async fn discard_one(&self, working: &mut Working, path: &VPath) -> Result<(), FsError> {
        let upper = &*self.upper;
        let above = named(upper, &working.state, path).await?;
        // The upper file hides the lower one until the markers are right.
        self.reveal(working, path, above).await?;
        if above == Named::Leaf { working.delete(upper, path).await } else { Ok(()) }
    }

    /// Removes the markers that hide what the lower backend has at a path, and nothing else of it.
    async fn reveal(&self, working: &mut Working, path: &VPath, above: Named) -> Result<(), FsError> {
        let upper = &*self.upper;
        let mut way: Vec<VPath> = std::iter::once(path.clone()).chain(path.ancestors()).collect();
        while let Some(at) = way.pop() {
            let Some(mark) = marker(&at) else { continue };
            match upper.stat(&working.state, &mark).await {
                Ok(_) => {}
                Err(FsError::NotFound(_) | FsError::NotADirectory(_) | FsError::BadName { .. }) => continue,
                Err(error) => return Err(error),
            }
            let below = self.below(working, &at).await?;
            let holds_files = below == Named::Directory && !is_empty(&*self.lower, &working.state, &at).await?;
            if at == *path {
                // What was in a directory is hidden by changes of their own.
                if holds_files {
                    return Ok(());
                }
                if above == Named::Directory && below == Named::Leaf {
                    if !is_empty(upper, &working.state, path).await? {
                        return Err(FsError::IsDirectory(path.clone()));
                    }
                    working.delete(upper, path).await?;
                }
            } else {
                match below {
                    Named::Nothing => {}
                    Named::Leaf => return Ok(()),
                    Named::Directory if !holds_files => {}
                    Named::Directory if self.below(working, path).await? == Named::Nothing => return Ok(()),
                    Named::Directory => self.hide_others(working, &at, path).await?,
                }
            }
            working.delete(upper, &mark).await?;
        }
        Ok(())
    }

    /// Hides everything that the lower backend has below a directory, except for a path and the directories that lead
    /// to it.
    async fn hide_others(&self, working: &mut Working, directory: &VPath, path: &VPath) -> Result<(), FsError> {
        let mut way: Vec<VPath> = path.ancestors().filter(|above| above.starts_with(directory)).collect();
        while let Some(above) = way.pop() {
            for entry in listed(&*self.lower, &working.state, &above).await?.entries {
                if path.starts_with(&entry.path) || is_marker(&entry.path) {
                    continue;
                }
                if let Some(mark) = marker(&entry.path) {
                    working.write(&*self.upper, &mark, Bytes::new(), WriteMode::Overwrite).await?;
                }
            }
        }
        Ok(())
    }

    async fn below(&self, working: &Working, path: &VPath) -> Result<Named, FsError> {
        named(&*self.lower, &working.state, path).await
    }
}
