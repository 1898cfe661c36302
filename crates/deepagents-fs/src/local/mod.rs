//! A directory on disk.

#[cfg(target_os = "linux")]
mod cached;
#[cfg(feature = "undo")]
mod found_state;
mod in_place;
mod lock;
mod open;
mod pinned_path;
mod protect;
mod read;
#[cfg(feature = "undo")]
mod record;
mod remove;
mod resolve;
#[cfg(feature = "undo")]
mod restore;
mod search;
mod temporary;
mod tree;
mod walk;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
#[cfg(feature = "undo")]
use deepagents_core::state::ChannelSpec;
use deepagents_core::state::{State, Update};
use futures_core::future::BoxFuture;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

pub(crate) use self::open::same_mount;
use self::pinned_path::PinnedPath;
use crate::lines::{self, LineRange, LineWindow};
use crate::locks::PathLocks;
use crate::permissions::{AccessMode, ProtectedPlaces};
use crate::search::{Control, GlobOutcome, GlobQuery, GrepOutcome, GrepQuery};
#[cfg(feature = "undo")]
use crate::undo::{FileUndo, UndoStore};
use crate::{
    Backend, ByteRange, FileRead, FsError, FsFuture, Listing, OpenError, PathGuard, Stat, VPath, WriteMode, Written,
};
#[cfg(feature = "undo")]
pub use restore::{RestoreError, Restored};

/// A directory on disk as a workspace: `/` is the directory, and nothing outside it can be reached.
///
/// Every file is opened relative to a handle of the directory, with `openat2` on Linux and component by component where
/// that is unavailable. Symbolic links that stay inside are followed; others are errors. Devices, FIFOs and sockets are
/// refused. Repositories are [protected](LocalOptions::protected).
///
/// A write goes to a temporary file that then replaces the old one, so readers see either the old or the new content.
/// Owner and mode are kept, without set-uid and set-gid bits; on Linux so are the ACL, the SELinux label and `user.*`
/// attributes. Other hard links of the file keep the old content. Only the owner can access the temporary file until it
/// has its final mode, and where the system supports it, it has no name until it is complete. If access rights cannot
/// be preserved, or a sandboxed command may not write the file, the file is written in place instead. If that fails,
/// the old content is put back, unless it is too large to be held in memory.
///
/// If the program is killed in the instant of a replacement, a hidden file `.tmp-…` with the old or the new content
/// may stay beside the file. One that is written in place is half written then.
///
/// Backends of the same directory, in any process, serialise their changes: a write based on a version either replaces
/// that version or fails.
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
    /// The same directory, but links in paths are errors.
    direct: Arc<Root>,
    pin: Option<Arc<PinnedPath>>,
    locks: PathLocks,
}

/// Options for opening a directory.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// Whether to wait until a write has reached the disk. Off by default.
    pub sync: bool,
    /// Whether the kernel resolves paths (`openat2`) where it can; on by default. Otherwise they are resolved component
    /// by component, with the same results.
    pub kernel_resolution: bool,
    /// Maximum number of bytes that one read may hold in memory; 256 MiB by default. Does not apply to windows of
    /// lines.
    pub max_read: u64,
    /// Places that cannot be changed or deleted through this backend; see [`ProtectedPlaces`] for the defaults.
    pub protected: ProtectedPlaces,
    /// Where to record the changes of a thread's runs, so that they can be [restored](LocalBackend::restore). Off by
    /// default. Changes made by commands are not recorded.
    #[cfg(feature = "undo")]
    pub undo: Option<UndoStore>,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            sync: false,
            kernel_resolution: true,
            max_read: 256 << 20,
            protected: ProtectedPlaces::default(),
            #[cfg(feature = "undo")]
            undo: None,
        }
    }
}

#[derive(Clone, Debug)]
struct Root {
    fd: Arc<OwnedFd>,
    path: PathBuf,
    options: LocalOptions,
    links: Links,
    /// Held from the check of a file's version until its replacement, both of which are fast.
    turns: Arc<lock::Turns>,
    #[cfg(feature = "undo")]
    recorder: Option<Arc<record::Recorder>>,
}

/// Treatment of links in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    /// Follow those that stay inside.
    Follow,
    /// Return an error.
    Refuse,
}

impl LocalBackend {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// Returns an error if the path is not a directory or cannot be opened.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(directory, LocalOptions::default())
    }

    /// Opens an existing directory with options.
    ///
    /// # Errors
    /// Returns an error if the path is not a directory or cannot be opened, or if its changes cannot be recorded as the
    /// options require.
    pub fn open_with(directory: impl AsRef<Path>, options: LocalOptions) -> Result<Self, OpenError> {
        let given = directory.as_ref();
        let failed = |source| OpenError { path: given.to_owned(), source };
        let path = given.canonicalize().map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        #[cfg(feature = "undo")]
        let recorder = match &options.undo {
            Some(store) => Some(Arc::new(record::Recorder::open(&path, store, options.sync).map_err(failed)?)),
            None => None,
        };
        let root = Root {
            fd: Arc::new(fd),
            path,
            options,
            links: Links::Follow,
            turns: Arc::default(),
            #[cfg(feature = "undo")]
            recorder,
        };
        let direct = Arc::new(Root { links: Links::Refuse, ..root.clone() });
        Ok(Self { root: Arc::new(root), direct, pin: None, locks: PathLocks::default() })
    }

    /// Returns the host path of the directory, as of when it was opened. For people and shells; never show it to a
    /// model.
    pub fn host_path(&self) -> &Path {
        &self.root.path
    }

    /// Returns the places that cannot be changed through this backend, so that a shell can enforce the same.
    pub fn protected_places(&self) -> &ProtectedPlaces {
        &self.root.options.protected
    }

    async fn blocking<T: Send + 'static, E: From<FsError> + Send + 'static>(
        &self,
        path: &VPath,
        work: impl FnOnce(&Root, &VPath) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let (root, on) = (self.root.clone(), path.clone());
        let unfinished = |_| FsError::io(path, std::io::ErrorKind::Other, "the operation did not finish");
        tokio::task::spawn_blocking(move || work(&root, &on)).await.map_err(unfinished)?
    }

    /// Runs `work` on a path, or on the place it is pinned to.
    async fn at<T: Send + 'static>(
        &self,
        path: &VPath,
        work: impl FnOnce(&Root, &VPath) -> Result<T, FsError> + Send + 'static,
    ) -> Result<T, FsError> {
        let Some(pin) = self.pin_of(path) else { return self.blocking(path, work).await };
        let (direct, at) = (self.direct.clone(), pin.clone());
        let done = self.blocking(path, move |_, _| work(&direct, &at.place)).await;
        done.map_err(|error| pin.error(error))
    }

    /// Returns the pin of a path, if it has one.
    fn pin_of(&self, path: &VPath) -> Option<&Arc<PinnedPath>> {
        self.pin.as_ref().filter(|pin| pin.path == *path)
    }
}

#[cfg_attr(not(feature = "undo"), expect(unused_variables, reason = "only the log of changes belongs to a state"))]
impl Backend for LocalBackend {
    fn stat<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
        Box::pin(self.at(path, Root::stat))
    }

    fn read<'a>(&'a self, _: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        Box::pin(async move {
            #[cfg(target_os = "linux")]
            {
                let (root, at) = self.pin_of(path).map_or((&self.root, path), |pin| (&self.direct, &pin.place));
                if let Some(read) = root.read_cached(at, range) {
                    return Ok(read);
                }
            }
            self.at(path, move |root, path| root.read(path, range)).await
        })
    }

    fn read_lines<'a>(&'a self, _: &'a State, path: &'a VPath, range: LineRange) -> FsFuture<'a, LineWindow> {
        Box::pin(async move {
            let control = Control::new(Some(lines::SCAN_TIMEOUT));
            // Stops reading when the caller drops the future.
            let _stop = control.stop_on_drop();
            self.at(path, move |root, path| root.read_lines(path, range, &control)).await
        })
    }

    fn list<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
        Box::pin(async move {
            let listing = self.at(path, Root::list).await?;
            Ok(if let Some(pin) = self.pin_of(path) { listing.map_paths(|path| pin.back(path)) } else { listing })
        })
    }

    fn write<'a>(&'a self, state: &'a State, path: &'a VPath, data: Bytes, mode: WriteMode) -> FsFuture<'a, Written> {
        Box::pin(async move {
            self.root.check_named(path)?;
            #[cfg(feature = "undo")]
            if let Some(recorder) = self.root.recorder.as_ref().and_then(|recorder| recorder.thread_recorder(state)) {
                let write = move |root: &Root, path: &VPath| root.write_recorded(path, &data, &mode, &recorder);
                return self.at(path, write).await;
            }
            let version = self.at(path, move |root, path| root.write(path, &data, &mode)).await?;
            Ok(Written { update: Update::none(), version })
        })
    }

    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        Box::pin(async move {
            self.root.check_named(path)?;
            #[cfg(feature = "undo")]
            if let Some(recorder) = self.root.recorder.as_ref().and_then(|recorder| recorder.thread_recorder(state)) {
                return self.at(path, move |root, path| root.remove_recorded(path, &recorder)).await;
            }
            self.at(path, Root::remove).await.map(|()| Update::none())
        })
    }

    #[cfg(feature = "undo")]
    fn channels(&self) -> Vec<ChannelSpec> {
        self.root.recorder.iter().map(|_| ChannelSpec::new::<FileUndo>()).collect()
    }

    fn glob<'a>(&'a self, _: &'a State, query: &'a GlobQuery) -> FsFuture<'a, GlobOutcome> {
        Box::pin(self.find(query))
    }

    fn grep<'a>(&'a self, _: &'a State, query: &'a GrepQuery) -> FsFuture<'a, GrepOutcome> {
        Box::pin(self.search(query))
    }

    fn pinned(&self, path: &VPath, place: &VPath) -> Option<Arc<dyn Backend>> {
        let pin = PinnedPath { path: path.clone(), place: place.clone() };
        Some(Arc::new(Self { pin: Some(Arc::new(pin)), ..self.clone() }))
    }

    fn change_access<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, AccessMode> {
        Box::pin(async move {
            match self.root.options.protected.decide(path).mode {
                AccessMode::Allow => {}
                decided => return decided,
            }
            let decided = self.blocking::<_, FsError>(path, |root, path| Ok(root.access_by_place(path))).await;
            // If the check failed, ask a person.
            decided.unwrap_or(AccessMode::Ask)
        })
    }

    fn resolve<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, VPath> {
        Box::pin(self.at(path, Root::real_path))
    }

    fn lock<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, Option<PathGuard>> {
        Box::pin(async move { Some(self.locks.lock(path).await) })
    }
}
