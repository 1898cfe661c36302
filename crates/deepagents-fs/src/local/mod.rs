//! A directory on disk.

mod keeping;
mod open;
mod read;
mod remove;
mod resolve;
mod restore;
mod search;
mod walk;
mod write;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use deepagents_core::state::{ChannelSpec, State, Update};
use futures_core::future::BoxFuture;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

use crate::kept::{Keep, KeptFiles, Marks, Store};
use crate::lines::{LineRange, LineWindow};
use crate::locks::PathLocks;
use crate::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery};
use crate::{Backend, ByteRange, FileRead, FsError, Listing, PathGuard, Stat, VPath, WriteMode, Written};
use keeping::Keeping;
pub use restore::{RestoreError, Restored};

/// A directory on disk as a workspace: `/` is the directory, and nothing outside of it can be reached.
///
/// Every file is opened below a handle of the directory (`openat2` on Linux; component by component where that is
/// missing). Symbolic links that stay inside are followed, others are errors. Devices, FIFOs and sockets are refused.
/// A write goes to a temporary file that then takes the old one's place, so readers see the old or the new content
/// whole; owner and mode are kept, extended attributes are not. Other hard links of the file keep the old content.
///
/// ```
/// use deepagents_core::state::State;
/// use deepagents_fs::{Backend, ByteRange, LocalBackend, VPath, WriteMode};
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # let dir = tempfile::tempdir()?;
/// # runtime.block_on(async {
/// let files = LocalBackend::open(dir.path())?;
/// let (state, path) = (State::default(), VPath::parse("/src/lib.rs")?);
/// files.write(&state, &path, "//! Hello.\n".into(), WriteMode::Create).await?;
/// assert_eq!(files.read(&state, &path, ByteRange::ALL).await?.stat.size, 11);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LocalBackend {
    root: Arc<Root>,
    locks: PathLocks,
}

/// How a directory is used.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    sync: bool,
    kernel: bool,
    max_read: u64,
    keep: Option<Keep>,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self { sync: false, kernel: true, max_read: 256 << 20, keep: None }
    }
}

impl LocalOptions {
    /// Waits until a write has reached the disk. Off by default.
    #[must_use]
    pub fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }

    /// How many bytes one read may hold in memory; 256 MiB by default. Windows of lines are not bound by it.
    #[must_use]
    pub fn max_read(mut self, bytes: u64) -> Self {
        self.max_read = bytes;
        self
    }

    /// Whether the kernel resolves paths (`openat2`) where it can; on by default. Without it they are resolved
    /// component by component, with the same results.
    #[must_use]
    pub fn kernel_resolution(mut self, kernel: bool) -> Self {
        self.kernel = kernel;
        self
    }

    /// Keeps what the runs of threads change, so that it can be [put back](LocalBackend::restore). Off by default.
    /// Changes by commands are not kept.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = Some(keep);
        self
    }
}

/// A directory could not be opened as a workspace.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {} as a workspace: {source}", .path.display())]
pub struct OpenError {
    /// The directory, as it was given.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: std::io::Error,
}

#[derive(Debug)]
struct Root {
    fd: OwnedFd,
    path: PathBuf,
    options: LocalOptions,
    /// Held from the check of a file's version until its replacement, both quick.
    commit: Mutex<()>,
    store: Option<Store>,
    /// Names the directory where changes are kept.
    key: String,
}

impl LocalBackend {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// When it is not a directory or cannot be opened.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(directory, LocalOptions::default())
    }

    /// Opens an existing directory with options.
    ///
    /// # Errors
    /// When it is not a directory or cannot be opened, or what is changed in it cannot be kept where the options say.
    pub fn open_with(directory: impl AsRef<Path>, options: LocalOptions) -> Result<Self, OpenError> {
        let given = directory.as_ref();
        let failed = |source| OpenError { path: given.to_owned(), source };
        let path = given.canonicalize().map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let store = options.keep.as_ref().map(Store::open).transpose().map_err(failed)?;
        if store.as_ref().is_some_and(|store| store.keep.dir.starts_with(&path)) {
            let inside = "what is changed in it would be kept inside of it; keep it elsewhere";
            return Err(failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, inside)));
        }
        let key = crate::kept::hash_of(path.as_os_str().as_encoded_bytes()).chars().take(16).collect();
        let root = Root { fd, path, options, commit: Mutex::new(()), store, key };
        Ok(Self { root: Arc::new(root), locks: PathLocks::default() })
    }

    /// The directory on the host, as it was when it was opened. For people and for shells; never show it to a model.
    pub fn host_path(&self) -> &Path {
        &self.root.path
    }

    async fn blocking<T: Send + 'static>(
        &self,
        path: &VPath,
        work: impl FnOnce(&Root, &VPath) -> Result<T, FsError> + Send + 'static,
    ) -> Result<T, FsError> {
        let (root, on) = (self.root.clone(), path.clone());
        match tokio::task::spawn_blocking(move || work(&root, &on)).await {
            Ok(result) => result,
            Err(_) => Err(FsError::io(path, std::io::ErrorKind::Other, "the operation did not finish")),
        }
    }
}

impl Root {
    /// Where changes are kept, for the thread of a state.
    fn kept(&self, state: &State) -> Option<Marks> {
        self.store.as_ref().and_then(|_| Marks::of(state, &self.key))
    }
}

impl Backend for LocalBackend {
    fn stat<'a>(&'a self, _: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Stat, FsError>> {
        Box::pin(self.blocking(path, Root::stat))
    }

    fn read<'a>(&'a self, _: &'a State, path: &'a VPath, range: ByteRange) -> BoxFuture<'a, Result<FileRead, FsError>> {
        Box::pin(self.blocking(path, move |root, path| root.read(path, range)))
    }

    fn read_lines<'a>(
        &'a self,
        _: &'a State,
        path: &'a VPath,
        range: LineRange,
    ) -> BoxFuture<'a, Result<LineWindow, FsError>> {
        Box::pin(self.blocking(path, move |root, path| root.read_lines(path, range)))
    }

    fn list<'a>(&'a self, _: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Listing, FsError>> {
        Box::pin(self.blocking(path, Root::list))
    }

    fn write<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        data: Bytes,
        mode: WriteMode,
    ) -> BoxFuture<'a, Result<Written, FsError>> {
        Box::pin(async move {
            let marks = self.root.kept(state);
            let write = move |root: &Root, path: &VPath| match (&root.store, &marks) {
                (Some(store), Some(marks)) => {
                    let (version, seq) = root.write_kept(path, &data, &mode, Keeping { store, marks })?;
                    Ok(Written { update: KeptFiles::reached(&root.key, seq), version })
                }
                _ => Ok(Written { update: Update::none(), version: root.write(path, &data, &mode)? }),
            };
            self.blocking(path, write).await
        })
    }

    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Update, FsError>> {
        Box::pin(async move {
            let marks = self.root.kept(state);
            let remove = move |root: &Root, path: &VPath| match (&root.store, &marks) {
                (Some(store), Some(marks)) => {
                    let seq = root.remove_kept(path, Keeping { store, marks })?;
                    Ok(KeptFiles::reached(&root.key, seq))
                }
                _ => root.remove(path).map(|()| Update::none()),
            };
            self.blocking(path, remove).await
        })
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        self.root.store.iter().map(|_| ChannelSpec::of::<KeptFiles>()).collect()
    }

    fn glob<'a>(&'a self, _: &'a State, query: &'a GlobQuery) -> BoxFuture<'a, Result<GlobOutcome, FsError>> {
        Box::pin(self.find(query))
    }

    fn grep<'a>(&'a self, _: &'a State, query: &'a GrepQuery) -> BoxFuture<'a, Result<GrepOutcome, FsError>> {
        Box::pin(self.search(query))
    }

    fn resolve<'a>(&'a self, _: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<VPath, FsError>> {
        Box::pin(self.blocking(path, Root::real_path))
    }

    fn lock<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, Option<PathGuard>> {
        Box::pin(async move { Some(self.locks.lock(path).await) })
    }
}
