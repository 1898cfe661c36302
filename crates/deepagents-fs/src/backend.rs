//! What a store of files must do, and what it gets for it.

mod content;
mod listing;
mod stat;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{ChannelSpec, State, Update};
use futures_core::future::BoxFuture;

use crate::lines::{self, LineRange, LineWindow};
use crate::permissions::AccessMode;
use crate::search::{self, GlobOutcome, GlobQuery, GrepOutcome, GrepQuery};
use crate::shell::Shell;
use crate::{FsError, VPath};
pub use content::{ByteRange, FileRead, WriteMode, Written};
pub use listing::{Entry, Listing};
pub use stat::{Kind, Stat, Version};

/// The future of an operation on files.
pub type FsFuture<'a, T> = BoxFuture<'a, Result<T, FsError>>;

/// A store of files. Five methods are required; the rest have defaults built on them.
///
/// The state of the thread is handed in and changes to it are handed back, so that a store inside the state
/// ([`StateBackend`](crate::StateBackend)) and one outside look the same to their users.
///
/// The example `backend` of the crate `deepagents` is one in under sixty lines; `backend_suite!` of
/// `deepagents-testing` says of any whether it keeps the rules.
///
/// ```
/// use deepagents_core::state::{State, Update};
/// use deepagents_fs::{Backend, ByteRange, FsError, VPath, WriteMode};
///
/// /// Copies a file to where none is; the caller applies the update.
/// async fn copy(files: &dyn Backend, state: &State, from: &VPath, to: &VPath) -> Result<Update, FsError> {
///     let file = files.read(state, from, ByteRange::ALL).await?;
///     Ok(files.write(state, to, file.bytes, WriteMode::Create).await?.update)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a backend",
    note = "`LocalBackend::open(path)?` is one on a directory, and `StateBackend::new()` one in the state of a thread"
)]
pub trait Backend: Send + Sync + 'static {
    /// What is at a path; symbolic links are followed.
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Stat>;

    /// Bytes of a file. A range that begins past the end gives none.
    fn read<'a>(&'a self, state: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead>;

    /// A whole file that is about to be edited, of [`edit::MAX_BYTES`](crate::edit::MAX_BYTES) at most. It is bound by the rules about writing, where [`read`](Self::read) is
    /// bound by those about reading.
    fn read_to_change<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, FileRead> {
        Box::pin(async move {
            let limit = crate::edit::MAX_BYTES;
            let file = self.read(state, path, ByteRange::first(limit + 1)).await?;
            if file.stat.size.max(file.bytes.len() as u64) > limit {
                return Err(FsError::TooLarge { path: path.clone(), size: file.stat.size, limit });
            }
            Ok(file)
        })
    }

    /// The direct children of a directory, sorted by path.
    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Listing>;

    /// Writes a whole file, with the directories above it. A path is a file or a directory, not both.
    fn write<'a>(&'a self, state: &'a State, path: &'a VPath, data: Bytes, mode: WriteMode) -> FsFuture<'a, Written>;

    /// Deletes a file, or a directory with all it holds; a symbolic link, not what it leads to. The root is refused.
    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update>;

    /// A window of a text file's lines. The default reads the file whole.
    fn read_lines<'a>(&'a self, state: &'a State, path: &'a VPath, range: LineRange) -> FsFuture<'a, LineWindow> {
        Box::pin(async move {
            let file = self.read(state, path, ByteRange::ALL).await?;
            Ok(lines::window(&file.bytes, range, file.stat.version))
        })
    }

    /// Finds files by name.
    fn glob<'a>(&'a self, state: &'a State, query: &'a GlobQuery) -> FsFuture<'a, GlobOutcome> {
        Box::pin(search::glob(self, state, query))
    }

    /// Finds lines by content.
    fn grep<'a>(&'a self, state: &'a State, query: &'a GrepQuery) -> FsFuture<'a, GrepOutcome> {
        Box::pin(search::grep(self, state, query))
    }

    /// The path that a path leads to once symbolic links are followed; what does not exist stays as written. A store
    /// without links gives the path back.
    fn resolve<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, VPath> {
        let _ = state;
        Box::pin(async move { Ok(path.clone()) })
    }

    /// The same store, in which a path leads to a place and nowhere else: what is done at the path is done there, and where
    /// a link has come to be on the way to the place, it fails with [`FsError::LeadsElsewhere`]. Whoever has judged a path by
    /// where it [leads](Self::resolve) does by this what was judged; between two looks somebody may exchange a directory
    /// for a link. None where no path leads through links, or where nobody can see to it. A wrapper that leaves paths to
    /// a backend inside asks that one.
    fn leading(&self, path: &VPath, place: &VPath) -> Option<Arc<dyn Backend>> {
        let _ = (path, place);
        None
    }

    /// Waits for its turn to change a file; the turn ends when the guard is dropped. Stores whose files change only
    /// through updates of the state need none.
    fn lock<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, Option<PathGuard>> {
        let _ = path;
        Box::pin(async { None })
    }

    /// What the store can do.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// What the store says about changing what is at a path, with all below it, before anybody tries:
    /// [`Deny`](AccessMode::Deny) where it refuses, [`Ask`](AccessMode::Ask) where whoever calls on behalf of a model has
    /// to ask a person first, about the path as written and the one that it [leads to](Self::resolve).
    fn change_access<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, AccessMode> {
        let _ = path;
        Box::pin(async { AccessMode::Allow })
    }

    /// Where commands can be run on these files; none by default. [`WithShell`](crate::shell::WithShell) adds one.
    fn shell(&self) -> Option<&dyn Shell> {
        None
    }

    /// Whether commands might reach what is at a path or below it, past this backend. Yes, unless it is kept where no
    /// command sees it.
    fn shell_visible(&self, path: &VPath) -> bool {
        let _ = path;
        true
    }

    /// The state channels it needs; whoever uses the backend declares them.
    fn channels(&self) -> Vec<ChannelSpec> {
        Vec::new()
    }
}

impl fmt::Debug for dyn Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

/// What a backend can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Files can be written.
    pub write: bool,
    /// Files can be deleted.
    pub delete: bool,
    /// Directories exist by themselves. Otherwise one is there as long as a file is below it, and one that is missing is
    /// as good as an empty one.
    pub directories: bool,
}

impl Default for Capabilities {
    /// All of it.
    fn default() -> Self {
        Self { write: true, delete: true, directories: true }
    }
}

/// A turn at changing a file, from [`Backend::lock`].
#[derive(Debug)]
pub struct PathGuard {
    _guard: tokio::sync::OwnedMutexGuard<()>,
}

impl From<tokio::sync::OwnedMutexGuard<()>> for PathGuard {
    fn from(guard: tokio::sync::OwnedMutexGuard<()>) -> Self {
        Self { _guard: guard }
    }
}
