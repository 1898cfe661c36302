//! The [`Backend`] trait: what a file store must implement, and the defaults it gets in return.

mod content;
mod listing;
mod stat;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{ChannelSpec, State, Update};
use futures_core::future::BoxFuture;

use crate::forward::forward;
use crate::lines::{self, LineRange, LineWindow};
use crate::permissions::AccessMode;
use crate::search::{self, GlobOutcome, GlobQuery, GrepOutcome, GrepQuery};
use crate::shell::Shell;
use crate::{FsError, VPath};
pub use content::{ByteRange, FileRead, WriteMode, Written};
pub use listing::{Entry, Listing};
#[cfg(all(unix, feature = "undo"))]
pub(crate) use stat::hex;
pub use stat::{Kind, Stat, Version};

/// Future returned by a file operation.
pub type FsFuture<'a, T> = BoxFuture<'a, Result<T, FsError>>;

/// A file store. Five methods are required; the others have default implementations built on them.
///
/// Methods take the thread's state and return their changes to it, so a store inside the state
/// ([`StateBackend`](crate::StateBackend)) and a store outside it look the same to callers.
///
/// The `backend` example of the `deepagents` crate implements one in under sixty lines; `backend_suite!` of
/// `deepagents-testing` checks any implementation against the contract.
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
    /// Returns the metadata of a file or directory, following symbolic links.
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Stat>;

    /// Reads bytes of a file. A range that starts past the end returns no bytes.
    fn read<'a>(&'a self, state: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead>;

    /// Reads a whole file that is about to be edited, of at most [`edit::MAX_BYTES`](crate::edit::MAX_BYTES). Write
    /// permission rules apply, where [`read`](Self::read) is subject to the read rules.
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

    /// Lists the direct children of a directory, sorted by path.
    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Listing>;

    /// Writes a whole file and creates its missing parent directories. A path is either a file or a directory, never
    /// both.
    fn write<'a>(&'a self, state: &'a State, path: &'a VPath, data: Bytes, mode: WriteMode) -> FsFuture<'a, Written>;

    /// Deletes a file, or a directory with its contents. Deletes a symbolic link itself, not its target. The root
    /// cannot be deleted.
    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update>;

    /// Reads a window of a text file's lines. The default implementation reads the whole file.
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

    /// Resolves the symbolic links in a path; components that do not exist stay as written. A store without links
    /// returns the path unchanged.
    fn resolve<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, VPath> {
        let _ = state;
        Box::pin(async move { Ok(path.clone()) })
    }

    /// Returns a view of this store that pins `path` to `place`: an operation on `path` acts on `place`. If a link has
    /// since appeared on the way to `place`, the operation fails with [`FsError::LeadsElsewhere`].
    ///
    /// A caller that checked a path by its [resolved](Self::resolve) target uses this to act on the target it checked,
    /// because another process may replace a directory by a link between the check and the operation.
    ///
    /// Returns `None` if the store has no links, or if it cannot enforce this. A wrapper that passes paths to an inner
    /// backend must call that backend's method.
    fn pinned(&self, path: &VPath, place: &VPath) -> Option<Arc<dyn Backend>> {
        let _ = (path, place);
        None
    }

    /// Acquires the lock for changing a file; dropping the guard releases it. Stores that change files only through
    /// state updates need no lock and return `None`.
    fn lock<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, Option<PathGuard>> {
        let _ = path;
        Box::pin(async { None })
    }

    /// Returns what the store can do.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Returns, before any attempt, whether the store allows changing a path and everything below it:
    /// [`Deny`](AccessMode::Deny) if it refuses; [`Ask`](AccessMode::Ask) if a caller that acts for a model must ask a
    /// person first, about both the path as written and its [resolved](Self::resolve) target.
    fn change_access<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, AccessMode> {
        let _ = path;
        Box::pin(async { AccessMode::Allow })
    }

    /// Returns the shell that runs commands on these files; `None` by default. [`WithShell`](crate::shell::WithShell)
    /// adds one.
    fn shell(&self) -> Option<&dyn Shell> {
        None
    }

    /// Returns whether commands may reach the path, or anything below it, without going through this backend. `true`
    /// unless the files are stored where commands cannot see them.
    fn shell_visible(&self, path: &VPath) -> bool {
        let _ = path;
        true
    }

    /// Returns the directories whose files commands do not see at their paths, so that a model can be told. The root
    /// stands for all files.
    fn shell_unreachable(&self) -> Vec<VPath> {
        let root = VPath::root();
        if self.shell_visible(&root) { Vec::new() } else { vec![root] }
    }

    /// Returns the state channels the backend needs; its user must declare them.
    fn channels(&self) -> Vec<ChannelSpec> {
        Vec::new()
    }
}

impl<B: Backend + ?Sized> Backend for Arc<B> {
    forward!([.as_ref()]; stat, read, read_to_change, read_lines, list, write, delete, glob, grep, resolve, lock);
    forward!([.as_ref()]; capabilities, pinned, change_access, shell_visible, shell_unreachable, channels, shell);
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
    /// Directories exist on their own. Otherwise a directory exists only while a file is below it, and a missing
    /// directory is equivalent to an empty one.
    pub directories: bool,
}

impl Default for Capabilities {
    /// All capabilities.
    fn default() -> Self {
        Self { write: true, delete: true, directories: true }
    }
}

/// Guard of a file's lock, from [`Backend::lock`].
#[derive(Debug)]
pub struct PathGuard {
    _guard: tokio::sync::OwnedMutexGuard<()>,
}

impl From<tokio::sync::OwnedMutexGuard<()>> for PathGuard {
    fn from(guard: tokio::sync::OwnedMutexGuard<()>) -> Self {
        Self { _guard: guard }
    }
}
