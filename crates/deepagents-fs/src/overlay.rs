//! Keeps changes separate from the files they change.

mod apply;
mod changes;
mod discard;
mod layer;
mod revert;

use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{ChannelSpec, State, Update};
use futures_core::future::BoxFuture;

use crate::lines::{LineRange, LineWindow};
use crate::permissions::AccessMode;
use crate::{
    Backend, ByteRange, Capabilities, Entry, FileRead, FsError, FsFuture, Kind, Listing, PathGuard, Stat, VPath,
    WriteMode, Written,
};
pub use apply::{Applied, ApplyError};
pub use changes::{OverlayChange, OverlayChangeKind};

/// Two backends as one: writes go to the upper backend and hide what the lower one has. The lower backend is only read,
/// so that an agent can work on a project without modifying it.
///
/// Deleting a file of the lower backend writes a marker to the upper one: an empty file named `.wh.` followed by the
/// deleted name. Such names are reserved: they are not listed and cannot be written. [`changes`](Self::changes) lists
/// what was changed. [`apply`](Self::apply) makes the changes in the lower backend, and [`discard`](Self::discard) drops
/// them.
///
/// ```
/// use deepagents_fs::{OverlayBackend, StateBackend};
/// # use deepagents_fs::LocalBackend;
/// # let dir = tempfile::tempdir()?;
/// let draft = OverlayBackend::new(StateBackend::new(), LocalBackend::open(dir.path())?);
/// # drop(draft);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OverlayBackend {
    upper: Arc<dyn Backend>,
    lower: Arc<dyn Backend>,
}

/// Where a path was found.
struct Found<'a> {
    layer: &'a dyn Backend,
    is_lower: bool,
    stat: Stat,
}

const MARK: &str = ".wh.";

fn marker(path: &VPath) -> Option<VPath> {
    Some(path.parent()?.child(&format!("{MARK}{}", path.name()?)))
}

fn is_marker(path: &VPath) -> bool {
    path.components().any(|name| name.starts_with(MARK))
}

impl OverlayBackend {
    /// Puts `upper` over `lower`.
    pub fn new(upper: impl Backend, lower: impl Backend) -> Self {
        Self { upper: Arc::new(upper), lower: Arc::new(lower) }
    }

    /// Returns whether a deletion marker hides the lower backend's file at a path.
    async fn is_deleted(&self, state: &State, path: &VPath) -> Result<bool, FsError> {
        let mut from_the_top: Vec<VPath> = std::iter::once(path.clone()).chain(path.ancestors()).collect();
        while let Some(at) = from_the_top.pop() {
            if let Some(marker) = marker(&at) {
                match self.upper.stat(state, &marker).await {
                    Ok(_) => return Ok(true),
                    Err(FsError::NotFound(_) | FsError::NotADirectory(_) | FsError::BadName { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            // A directory that the upper backend does not have contains no markers.
            if !from_the_top.is_empty() && !at.is_root() && self.upper.stat(state, &at).await.is_err() {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Finds the layer that a path is in, and its metadata.
    async fn find(&self, state: &State, path: &VPath) -> Result<Found<'_>, FsError> {
        if is_marker(path) {
            return Err(FsError::NotFound(path.clone()));
        }
        match self.upper.stat(state, path).await {
            Err(FsError::NotFound(_)) if !self.is_deleted(state, path).await? => {
                Ok(Found { layer: &*self.lower, is_lower: true, stat: self.lower.stat(state, path).await? })
            }
            result => Ok(Found { layer: &*self.upper, is_lower: false, stat: result? }),
        }
    }

    fn reserved(path: &VPath) -> FsError {
        FsError::BadName { path: path.clone(), reason: format!("names that begin with `{MARK}` mark deletions") }
    }
}

/// Lists a directory of one layer; empty if the layer does not have it.
async fn listed(layer: &dyn Backend, state: &State, path: &VPath) -> Result<Listing, FsError> {
    match layer.list(state, path).await {
        Err(FsError::NotFound(_) | FsError::NotADirectory(_)) => Ok(Listing::default()),
        result => result,
    }
}

impl Backend for OverlayBackend {
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
        Box::pin(async move { Ok(self.find(state, path).await?.stat) })
    }

    fn read<'a>(&'a self, state: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        Box::pin(async move { self.find(state, path).await?.layer.read(state, path, range).await })
    }

    fn read_lines<'a>(&'a self, state: &'a State, path: &'a VPath, range: LineRange) -> FsFuture<'a, LineWindow> {
        Box::pin(async move { self.find(state, path).await?.layer.read_lines(state, path, range).await })
    }

    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
        Box::pin(async move {
            if self.find(state, path).await?.stat.kind != Kind::Directory {
                return Err(FsError::NotADirectory(path.clone()));
            }
            let over = listed(&*self.upper, state, path).await?;
            let under = match self.is_deleted(state, path).await? {
                true => Listing::default(),
                false => listed(&*self.lower, state, path).await?,
            };
            let unnameable = over.unnameable + under.unnameable;
            let (marks, mut entries): (Vec<Entry>, Vec<Entry>) = over
                .entries
                .into_iter()
                .partition(|entry| entry.path.name().is_some_and(|name| name.starts_with(MARK)));
            let gone = |entry: &Entry| marker(&entry.path).is_some_and(|mark| marks.iter().any(|m| m.path == mark));
            // Upper entries come first, and the first of two entries with the same path is kept.
            entries.extend(under.entries.into_iter().filter(|entry| !gone(entry) && !is_marker(&entry.path)));
            Ok(Listing { unnameable, ..Listing::from_entries(entries) })
        })
    }

    fn write<'a>(&'a self, state: &'a State, path: &'a VPath, data: Bytes, mode: WriteMode) -> FsFuture<'a, Written> {
        Box::pin(async move {
            if is_marker(path) {
                return Err(Self::reserved(path));
            }
            for above in path.ancestors() {
                match self.find(state, &above).await {
                    Ok(found) if found.stat.kind == Kind::Directory => break,
                    Ok(_) => return Err(FsError::NotADirectory(above)),
                    Err(FsError::NotFound(_) | FsError::NotADirectory(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            match self.find(state, path).await {
                Ok(found) if found.is_lower => {
                    // The first change copies the whole file up.
                    mode.check_at(path, Ok(found.stat))?;
                    self.upper.write(state, path, data, WriteMode::Create).await
                }
                Err(error) if !matches!(error, FsError::NotFound(_)) => Err(error),
                there => {
                    there.map_or(Ok(()), |found| found.stat.kind.require_file(path))?;
                    self.upper.write(state, path, data, mode).await
                }
            }
        })
    }

    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        Box::pin(async move {
            if path.is_root() {
                return Err(FsError::Fixed(path.clone()));
            }
            self.find(state, path).await?;
            if self.upper.change_access(path).await == AccessMode::Deny {
                return Err(FsError::Protected(path.clone()));
            }
            // Write the marker first; otherwise the lower file would reappear.
            let mut update = Update::none();
            let below = !self.is_deleted(state, path).await? && self.lower.stat(state, path).await.is_ok();
            if let Some(marker) = marker(path).filter(|_| below) {
                update = self.upper.write(state, &marker, Bytes::new(), WriteMode::Overwrite).await?.update;
            }
            match self.upper.delete(state, path).await {
                Err(FsError::NotFound(_) | FsError::NotADirectory(_)) => Ok(update),
                result => Ok(update.and(result?)),
            }
        })
    }

    fn resolve<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, VPath> {
        Box::pin(async move {
            match self.find(state, path).await {
                Ok(found) => found.layer.resolve(state, path).await,
                // A new file would be written to the upper layer.
                Err(FsError::NotFound(_)) => self.upper.resolve(state, path).await,
                Err(error) => Err(error),
            }
        })
    }

    fn lock<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, Option<PathGuard>> {
        self.upper.lock(path)
    }

    fn capabilities(&self) -> Capabilities {
        let (upper, lower) = (self.upper.capabilities(), self.lower.capabilities());
        Capabilities { directories: upper.directories || lower.directories, ..upper }
    }

    /// Supported only if the path has no links, as the same path may resolve differently in the two layers.
    fn pinned(&self, path: &VPath, place: &VPath) -> Option<Arc<dyn Backend>> {
        let pinned = |layer: &Arc<dyn Backend>| layer.pinned(path, place).unwrap_or_else(|| layer.clone());
        (path == place)
            .then(|| Arc::new(Self { upper: pinned(&self.upper), lower: pinned(&self.lower) }) as Arc<dyn Backend>)
    }

    fn change_access<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, AccessMode> {
        self.upper.change_access(path)
    }

    fn shell_visible(&self, path: &VPath) -> bool {
        self.upper.shell_visible(path) || self.lower.shell_visible(path)
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        self.upper.channels().into_iter().chain(self.lower.channels()).collect()
    }
}
