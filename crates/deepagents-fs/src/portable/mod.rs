//! A directory on disk, on any platform the standard library supports.

mod change;
mod name;
mod place;
mod read;

use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use deepagents_core::state::{State, Update};
use futures_core::future::BoxFuture;

use crate::lines::{self, LineRange, LineWindow};
use crate::locks::PathLocks;
use crate::permissions::{AccessMode, ProtectedPlaces};
use crate::search::Control;
use crate::{
    Backend, ByteRange, FileRead, FsError, FsFuture, Listing, OpenError, PathGuard, Stat, VPath, WriteMode, Written,
};

/// Exposes a directory on disk as a workspace, on Windows as well as Unix. `/` is the directory, and nothing outside it
/// can be reached: `cap-std` opens every file relative to a handle of the directory.
///
/// On Linux and macOS, prefer [`LocalBackend`](crate::LocalBackend). This backend has the following limitations:
///
/// * A write based on a version fails if this process has changed the file in the meantime, through any backend of this
///   kind. A change by another process in the instant before the replacement goes undetected.
/// * If the program is killed while it writes a file, a hidden one with the extension `tmp` may stay beside it.
/// * On a file system without hard links, a new file is empty for an instant, and stays so if the program is killed then.
/// * Changes are not recorded and cannot be undone.
/// * Links to absolute paths are rejected, even if they lead inside. So is writing through a dangling link.
/// * A replaced file keeps its permissions but not its owner.
/// * Searches walk directories one by one on a single thread.
/// * There is no shell, as the command sandbox requires Linux.
///
/// On Windows, names that the system takes for other names are rejected: names with a colon, names that end with a dot
/// or a space, short names such as `GIT~1`, and device names.
///
/// ```
/// use deepagents_core::state::State;
/// use deepagents_fs::{Backend, ByteRange, PortableBackend, VPath, WriteMode};
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # let dir = tempfile::tempdir()?;
/// # runtime.block_on(async {
/// let files = PortableBackend::open(dir.path())?;
/// let (state, path) = (State::default(), VPath::parse("/src/lib.rs")?);
/// files.write(&state, &path, "//! Hello.\n".into(), WriteMode::Create).await?;
/// assert_eq!(files.read(&state, &path, ByteRange::ALL).await?.stat.size, 11);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PortableBackend {
    root: Arc<Root>,
    locks: PathLocks,
}

/// Options for opening a directory.
#[derive(Clone, Debug)]
pub struct PortableOptions {
    /// Whether to wait until a write has reached the disk. Off by default.
    pub sync: bool,
    /// Maximum number of bytes that one read may hold in memory; 256 MiB by default. Does not apply to windows of
    /// lines.
    pub max_read: u64,
    /// Places that cannot be changed or deleted through this backend; see [`ProtectedPlaces`] for the defaults.
    pub protected: ProtectedPlaces,
}

impl Default for PortableOptions {
    fn default() -> Self {
        Self { sync: false, max_read: 256 << 20, protected: ProtectedPlaces::default() }
    }
}

#[derive(Debug)]
struct Root {
    directory: Dir,
    options: PortableOptions,
}

/// Held from the check of a file's version until its replacement or removal. One for all backends of this process, as
/// several may be open on a directory or within it.
static COMMIT: Mutex<()> = Mutex::new(());

impl PortableBackend {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// Returns an error if the path is not a directory or cannot be opened.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(directory, PortableOptions::default())
    }

    /// Opens an existing directory with options.
    ///
    /// # Errors
    /// Returns an error if the path is not a directory or cannot be opened.
    pub fn open_with(directory: impl AsRef<Path>, options: PortableOptions) -> Result<Self, OpenError> {
        let path = directory.as_ref();
        let directory = Dir::open_ambient_dir(path, ambient_authority())
            .map_err(|source| OpenError { path: path.to_owned(), source })?;
        let root = Root { directory, options };
        Ok(Self { root: Arc::new(root), locks: PathLocks::default() })
    }

    async fn blocking<T: Send + 'static>(
        &self,
        path: &VPath,
        work: impl FnOnce(&Root, &VPath) -> Result<T, FsError> + Send + 'static,
    ) -> Result<T, FsError> {
        let (root, on) = (self.root.clone(), path.clone());
        let unfinished = |_| FsError::io(path, std::io::ErrorKind::Other, "the operation did not finish");
        tokio::task::spawn_blocking(move || work(&root, &on)).await.map_err(unfinished)?
    }
}

impl Backend for PortableBackend {
    fn stat<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
        Box::pin(self.blocking(path, Root::stat))
    }

    fn read<'a>(&'a self, _: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        Box::pin(self.blocking(path, move |root, path| root.read(path, range)))
    }

    fn read_lines<'a>(&'a self, _: &'a State, path: &'a VPath, range: LineRange) -> FsFuture<'a, LineWindow> {
        Box::pin(async move {
            let control = Control::new(Some(lines::SCAN_TIMEOUT));
            // Stops reading when the caller drops the future.
            let _stop = control.stop_on_drop();
            self.blocking(path, move |root, path| root.read_lines(path, range, &control)).await
        })
    }

    fn list<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
        Box::pin(self.blocking(path, Root::list))
    }

    fn write<'a>(&'a self, _: &'a State, path: &'a VPath, data: Bytes, mode: WriteMode) -> FsFuture<'a, Written> {
        Box::pin(async move {
            let version = self.blocking(path, move |root, path| root.write(path, &data, &mode)).await?;
            Ok(Written { update: Update::none(), version })
        })
    }

    fn delete<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        Box::pin(async move { self.blocking(path, Root::remove).await.map(|()| Update::none()) })
    }

    fn change_access<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, AccessMode> {
        Box::pin(async move { self.root.options.protected.decide(path).mode })
    }

    fn resolve<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, VPath> {
        Box::pin(self.blocking(path, Root::real_path))
    }

    fn lock<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, Option<PathGuard>> {
        Box::pin(async move { Some(self.locks.lock(path).await) })
    }
}
