//! What an overlay changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::state::State;

use super::layer::{Found, found};
use super::{MARK, OverlayBackend, is_marker, listed};
use crate::{Backend, ByteRange, FsError, Kind, VPath};

/// Number of bytes compared at a time.
const PIECE: u64 = 1 << 20;

/// A file that an overlay changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverlayChange {
    /// Path of the file.
    pub path: VPath,
    /// How it differs from the lower backend.
    pub kind: OverlayChangeKind,
    /// What the upper backend has.
    pub(super) above: Option<Found>,
    /// What the lower backend has.
    pub(super) below: Option<Found>,
}

/// How a file in an overlay differs from the lower backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OverlayChangeKind {
    /// The lower backend does not have it.
    Added,
    /// Its content is another.
    Modified,
    /// Only the lower backend has it.
    Deleted,
}

/// Files, and links to directories, by path.
type Leaves = BTreeMap<VPath, Kind>;

impl OverlayBackend {
    /// Returns the lower backend, which has the files as they were before the changes.
    pub fn lower(&self) -> &Arc<dyn Backend> {
        &self.lower
    }

    /// Returns the files that differ from the lower backend as it is now, sorted by path. A deleted directory is
    /// returned as its files, and a link to a directory as one path. A file with the content that the lower backend
    /// has is no change, and neither is an empty directory.
    ///
    /// # Errors
    /// Returns an error if a file or directory cannot be read.
    pub async fn changes(&self, state: &State) -> Result<Vec<OverlayChange>, FsError> {
        let (mut before, after) = self.leaves(state).await?;
        for path in after.keys().filter(|path| !before.contains_key(*path)).cloned().collect::<Vec<_>>() {
            match self.lower.stat(state, &path).await {
                Ok(stat) if stat.kind == Kind::Directory => {}
                Ok(stat) => _ = before.insert(path, stat.kind),
                Err(FsError::NotFound(_) | FsError::NotADirectory(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let mut kinds = Vec::new();
        for (path, now) in &after {
            let kind = match before.remove(path) {
                None => OverlayChangeKind::Added,
                Some(Kind::File) if *now == Kind::File && self.is_same(state, path).await? => continue,
                Some(_) => OverlayChangeKind::Modified,
            };
            kinds.push((path.clone(), kind));
        }
        kinds.extend(before.into_keys().map(|path| (path, OverlayChangeKind::Deleted)));
        kinds.sort_by(|a, b| a.0.cmp(&b.0));
        let mut changes = Vec::with_capacity(kinds.len());
        for (path, kind) in kinds {
            let above = found(&*self.upper, state, &path).await?;
            let below = found(&*self.lower, state, &path).await?;
            changes.push(OverlayChange { path, kind, above, below });
        }
        Ok(changes)
    }

    /// Returns the leaves of the lower backend that markers hide, and those of the upper backend.
    async fn leaves(&self, state: &State) -> Result<(Leaves, Leaves), FsError> {
        let (mut hidden, mut written) = (Leaves::new(), Leaves::new());
        let mut directories = vec![VPath::root()];
        while let Some(directory) = directories.pop() {
            let mut deleted = Vec::new();
            for entry in listed(&*self.upper, state, &directory).await?.entries {
                if let Some(name) = entry.path.name().and_then(|name| name.strip_prefix(MARK)) {
                    deleted.push(directory.child(name));
                } else if entry.kind == Kind::Directory && !entry.link {
                    directories.push(entry.path);
                } else {
                    written.insert(entry.path, entry.kind);
                }
            }
            if !deleted.is_empty() {
                self.hidden(state, &directory, &deleted, &mut hidden).await?;
            }
        }
        Ok((hidden, written))
    }

    /// Adds the leaves of the lower backend at or below deleted children of a directory.
    async fn hidden(
        &self,
        state: &State,
        directory: &VPath,
        deleted: &[VPath],
        hidden: &mut Leaves,
    ) -> Result<(), FsError> {
        let mut entries = listed(&*self.lower, state, directory).await?.entries;
        entries.retain(|entry| deleted.contains(&entry.path));
        while let Some(entry) = entries.pop() {
            if is_marker(&entry.path) {
                continue;
            }
            if entry.kind == Kind::Directory && !entry.link {
                entries.extend(listed(&*self.lower, state, &entry.path).await?.entries);
            } else {
                hidden.insert(entry.path, entry.kind);
            }
        }
        Ok(())
    }

    /// Returns whether both layers have the same content at a path.
    async fn is_same(&self, state: &State, path: &VPath) -> Result<bool, FsError> {
        let mut offset = 0;
        loop {
            let range = ByteRange { offset, length: Some(PIECE) };
            let over = self.upper.read(state, path, range).await?;
            let under = self.lower.read(state, path, range).await?;
            if over.stat.size != under.stat.size || over.bytes != under.bytes {
                return Ok(false);
            }
            if over.bytes.is_empty() {
                return Ok(true);
            }
            offset += over.bytes.len() as u64;
        }
    }
}
