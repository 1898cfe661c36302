//! Makes an overlay's changes in the files below it.

use std::collections::BTreeSet;

use bytes::Bytes;
use deepagents_core::state::{State, Update};

use super::layer::{Found, Named, Working, found, is_empty, is_link, named};
use super::revert::{Made, Old};
use super::{OverlayBackend, OverlayChange, OverlayChangeKind};
use crate::permissions::AccessMode;
use crate::{Backend, ByteRange, FsError, VPath, WriteMode};

/// Result of making an overlay's changes in the lower backend.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Applied {
    /// The state update of both backends, which must be applied as that of a write.
    pub update: Update,
    /// Why something was left behind that has no effect on the files now: an upper copy of a file, which would hide
    /// later changes of the lower one, or an empty directory. [`OverlayBackend::discard`] removes the copies.
    pub left: Option<FsError>,
}

/// Why an overlay's changes were not made in the lower backend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// These files have changed since the changes were listed, in either backend. Nothing was changed.
    #[error("{} changed since the changes were listed; list them again", names(.0))]
    Stale(Vec<VPath>),
    /// A change cannot be made. Nothing was changed.
    #[error("nothing was applied: {0}")]
    Failed(#[from] FsError),
    /// A change cannot be made, and what was changed before it could not be brought back.
    #[error("{source}; {} stay changed", names(.changed))]
    Partly {
        /// The changed files.
        changed: Vec<VPath>,
        /// Why the change cannot be made.
        #[source]
        source: FsError,
    },
}

fn names(paths: &[VPath]) -> String {
    let shown: Vec<String> = paths.iter().take(3).map(ToString::to_string).collect();
    let more =
        if paths.len() > shown.len() { format!(" and {} others", paths.len() - shown.len()) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// A change with the contents that it needs.
struct CheckedChange {
    path: VPath,
    turn: Turn,
    /// The new content; `None` to delete the file.
    content: Option<Bytes>,
    below: Option<Found>,
    old: Old,
}

/// The order of changes. Deletions are the hardest to take back, so they come late; a file takes the place of a
/// directory, or the other way round, only after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    First,
    Deletion,
    AfterDeletions,
}

impl OverlayBackend {
    /// Makes changes in the lower backend and drops them from the overlay: all that [`changes`](Self::changes)
    /// returned, or some of them, such as those that a person agreed to.
    ///
    /// Each is made only if both backends still have the versions that `changes` saw. If one cannot be made, those
    /// before it are taken back, so the contents of the changed files are held in memory meanwhile; a deleted file comes
    /// back as a new one.
    ///
    /// If the process ends in the middle, `changes` lists the rest. The overlay keeps its copies of what was applied by
    /// then, which hide later changes of the lower backend until they are discarded: `changes` lists them once the lower
    /// backend differs.
    ///
    /// Whoever calls this has looked at the changes: places for which the lower backend requires a person's
    /// [approval](Backend::change_access) are changed, those that it denies are errors. What a link of the lower
    /// backend leads to is changed in its place. Directories of the lower backend that the overlay deletes are deleted
    /// once they are empty.
    ///
    /// The returned update must be applied to the state. No run may write to the overlay meanwhile.
    ///
    /// ```
    /// use deepagents_core::state::{Schema, State};
    /// use deepagents_fs::{Backend, LocalBackend, OverlayBackend, StateBackend, VPath, WriteMode};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # let dir = tempfile::tempdir()?;
    /// # runtime.block_on(async {
    /// let draft = OverlayBackend::new(StateBackend::new(), LocalBackend::open(dir.path())?);
    /// let mut state = State::new(std::sync::Arc::new(Schema::new(draft.channels())?));
    /// let path = VPath::parse("/notes.md")?;
    /// let written = draft.write(&state, &path, "Buy milk.".into(), WriteMode::Create).await?;
    /// state.apply(&written.update)?;
    /// assert!(!dir.path().join("notes.md").exists());
    ///
    /// let changes = draft.changes(&state).await?;
    /// let applied = draft.apply(&state, &changes).await?;
    /// state.apply(&applied.update)?;
    /// assert_eq!(std::fs::read_to_string(dir.path().join("notes.md"))?, "Buy milk.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if a file has changed in the meantime or a change cannot be made; see [`ApplyError`].
    pub async fn apply(&self, state: &State, changes: &[OverlayChange]) -> Result<Applied, ApplyError> {
        let mut steps = self.steps(state, changes).await?;
        let deletions = changes.iter().filter(|change| change.kind == OverlayChangeKind::Deleted);
        let deleted: BTreeSet<VPath> = deletions.map(|change| change.path.clone()).collect();
        for step in &mut steps {
            // The lower backend has this only through a link that will be gone.
            if step.path.ancestors().any(|above| deleted.contains(&above)) {
                (step.turn, step.below, step.old) = (Turn::AfterDeletions, None, Old::Absent);
            }
        }
        steps.sort_by_key(|step| step.turn);
        let (mut working, mut made) = (Working::new(state), Vec::new());
        for step in &steps {
            if let Err(source) = self.make(&mut working, step, &mut made).await {
                return Err(self.take_back(working, made, source).await);
            }
        }
        let tidied = self.remove_directories(&mut working, &deleted).await;
        let (update, discarded) = match self.discard(&working.state, changes).await {
            Ok(update) => (working.update.and(update), Ok(())),
            Err(error) => (working.update, Err(error)),
        };
        Ok(Applied { update, left: discarded.and(tidied).err() })
    }

    /// Checks changes and reads what they need.
    async fn steps(&self, state: &State, changes: &[OverlayChange]) -> Result<Vec<CheckedChange>, ApplyError> {
        let (mut steps, mut stale) = (Vec::with_capacity(changes.len()), Vec::new());
        for change in changes {
            let path = &change.path;
            if self.lower.change_access(path).await == AccessMode::Deny {
                return Err(FsError::Protected(path.clone()).into());
            }
            let is_deletion = change.kind == OverlayChangeKind::Deleted;
            let (above, below) = (found(&*self.upper, state, path).await?, found(&*self.lower, state, path).await?);
            let mut is_stale = above != change.above || below != change.below;
            if is_deletion && !is_stale {
                is_stale = !self.is_deleted(state, path).await?;
            }
            let mut content = None;
            if !is_deletion && !is_stale {
                content = held(&*self.upper, state, path, above.as_ref()).await?;
                is_stale = content.is_none();
            }
            let is_file = below.as_ref().is_some_and(Found::is_file);
            let mut old = if below.is_none() { Old::Absent } else { Old::Lost };
            if is_file && !is_stale {
                match held(&*self.lower, state, path, below.as_ref()).await {
                    Ok(Some(content)) => old = Old::Content(content),
                    Ok(None) => is_stale = true,
                    Err(FsError::TooLarge { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if is_stale {
                stale.push(path.clone());
                continue;
            }
            let turn = match &below {
                _ if is_deletion => Turn::Deletion,
                Some(_) if !is_file => Turn::AfterDeletions,
                _ => Turn::First,
            };
            steps.push(CheckedChange { path: path.clone(), turn, content, below, old });
        }
        if stale.is_empty() { Ok(steps) } else { Err(ApplyError::Stale(stale)) }
    }

    async fn make(&self, working: &mut Working, step: &CheckedChange, made: &mut Vec<Made>) -> Result<(), FsError> {
        let (lower, path) = (&*self.lower, step.path.clone());
        // Edits in this process wait for each other, as they do elsewhere.
        let _guard = lower.lock(&path).await;
        let Some(content) = step.content.clone() else {
            let (mut old, mut now) = (step.old.clone(), found(lower, &working.state, &path).await?);
            if is_link(lower, &working.state, &path).await? {
                // A link cannot be made again, and what it leads to may just have been changed.
                (old, now) = (Old::Lost, step.below.clone());
            }
            if now != step.below {
                return Err(FsError::Changed(path));
            }
            working.delete(lower, &path).await?;
            made.push(Made::Deleted { path, old });
            return Ok(());
        };
        let mut old = step.old.clone();
        let mode = match &step.below {
            Some(Found { version: Some(version), .. }) => WriteMode::IfVersion(version.clone()),
            Some(_) => {
                if self.make_way(working, &path).await? {
                    made.push(Made::Deleted { path: path.clone(), old });
                }
                old = Old::Absent;
                WriteMode::Create
            }
            None => WriteMode::Create,
        };
        let mut missing = Vec::new();
        for above in path.ancestors() {
            match lower.stat(&working.state, &above).await {
                Err(FsError::NotFound(_)) => missing.push(above),
                _ => break,
            }
        }
        let version = working.write(lower, &path, content, mode).await?;
        made.push(Made::Written { path, version, old, missing });
        Ok(())
    }

    /// Deletes what is not a file and whose place a file takes: a directory that holds nothing, or a link or the like.
    /// Returns whether it was one of the latter.
    async fn make_way(&self, working: &mut Working, path: &VPath) -> Result<bool, FsError> {
        let lower = &*self.lower;
        let there = named(lower, &working.state, path).await?;
        match there {
            Named::Nothing => return Ok(false),
            Named::Directory if !is_empty(lower, &working.state, path).await? => {
                return Err(FsError::IsDirectory(path.clone()));
            }
            Named::Directory | Named::Leaf => working.delete(lower, path).await?,
        }
        Ok(there == Named::Leaf)
    }

    /// Deletes the directories of the lower backend that the overlay no longer has, unless somebody has put something
    /// into them.
    async fn remove_directories(&self, working: &mut Working, deleted: &BTreeSet<VPath>) -> Result<(), FsError> {
        let lower = &*self.lower;
        let above: BTreeSet<VPath> = deleted.iter().flat_map(|path| path.ancestors()).collect();
        // Deepest directories first.
        for directory in above.into_iter().rev().filter(|directory| !directory.is_root()) {
            let in_overlay = self.find(&working.state, &directory).await;
            let is_gone = matches!(in_overlay, Err(FsError::NotFound(_) | FsError::NotADirectory(_)));
            let is_directory = is_gone && named(lower, &working.state, &directory).await? == Named::Directory;
            if is_directory && is_empty(lower, &working.state, &directory).await? {
                working.delete(lower, &directory).await?;
            }
        }
        Ok(())
    }
}

/// Reads a file that must be at the version seen before; `None` if it is not.
async fn held(
    layer: &dyn Backend,
    state: &State,
    path: &VPath,
    seen: Option<&Found>,
) -> Result<Option<Bytes>, FsError> {
    match layer.read(state, path, ByteRange::ALL).await {
        Ok(read) => {
            let same = seen.is_some_and(|seen| seen.version.as_ref() == Some(&read.stat.version));
            Ok(same.then_some(read.bytes))
        }
        Err(FsError::NotFound(_) | FsError::NotADirectory(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
