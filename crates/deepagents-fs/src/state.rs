//! Files in the thread's state.

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::env::{Clock, SystemClock};
use deepagents_core::state::{ChannelSpec, State, Update};

use crate::files::{FileData, FileMap, Files, FilesUpdate, shared_bytes};
use crate::lines::{LineRange, LineWindow};
use crate::{
    Backend, ByteRange, Capabilities, Entry, FileRead, FsError, FsFuture, Listing, Stat, VPath, WriteMode, Written,
    lines,
};

/// Files in the thread's state: they exist as long as the thread, are passed to sub-agents and back, and are never
/// written to disk. A directory exists while a file is below it.
///
/// A write has no effect by itself; it returns the update that performs it.
///
/// ```
/// use std::sync::Arc;
/// use deepagents_core::state::{Schema, State};
/// use deepagents_fs::{Backend, ByteRange, StateBackend, VPath, WriteMode};
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let files = StateBackend::new();
/// let mut state = State::new(Arc::new(Schema::new(files.channels())?));
/// let path = VPath::parse("/notes/today.md")?;
/// let written = files.write(&state, &path, "Buy milk\n".into(), WriteMode::Create).await?;
/// state.apply(&written.update)?;
/// assert_eq!(&files.read(&state, &path, ByteRange::ALL).await?.bytes[..], b"Buy milk\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct StateBackend {
    clock: Arc<dyn Clock>,
    base: VPath,
}

impl StateBackend {
    /// Creates a backend that timestamps files with the system clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// Creates a backend that timestamps files with `clock`.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { clock, base: VPath::root() }
    }

    /// Stores the files below a directory of the state. All backends of a thread share its files, so if one is mounted
    /// inside another, each needs its own directory.
    #[must_use]
    pub fn under(mut self, base: VPath) -> Self {
        self.base = base;
        self
    }

    /// Returns the file at a path, or the reason there is none.
    fn file<'a>(&self, state: &'a State, path: &VPath) -> Result<&'a Arc<FileData>, FsError> {
        match find(state, &self.inner(path)) {
            Err(FsError::NotFound(_)) if path.is_root() => Err(FsError::IsDirectory(path.clone())),
            result => result.map_err(|error| self.error(error)),
        }
    }

    fn inner(&self, path: &VPath) -> VPath {
        path.under(&self.base)
    }

    fn outer(&self, path: &VPath) -> VPath {
        path.strip_prefix(&self.base).unwrap_or_default()
    }

    fn error(&self, error: FsError) -> FsError {
        error.map_path(|path| self.outer(path))
    }
}

impl Default for StateBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for StateBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateBackend")
    }
}

fn map<'a>(state: &'a State, path: &VPath) -> Result<&'a FileMap, FsError> {
    let undeclared = || FsError::io(path, ErrorKind::Unsupported, "this agent does not declare the `files` channel");
    state.get::<Files>().ok_or_else(undeclared)
}

/// Returns the reason there is no file at a path.
fn absent(files: &FileMap, path: &VPath) -> FsError {
    if files.is_directory(path) {
        return FsError::IsDirectory(path.clone());
    }
    match files.file_above(path) {
        Some(path) => FsError::NotADirectory(path),
        None => FsError::NotFound(path.clone()),
    }
}

fn find<'a>(state: &'a State, path: &VPath) -> Result<&'a Arc<FileData>, FsError> {
    let files = map(state, path)?;
    files.get(path).ok_or_else(|| absent(files, path))
}

fn stat_of(file: &FileData) -> Stat {
    Stat { modified: file.modified(), ..Stat::file(file.content().bytes().len() as u64, file.version().clone()) }
}

fn list(files: &FileMap, directory: &VPath) -> Result<Listing, FsError> {
    if files.get(directory).is_some() {
        return Err(FsError::NotADirectory(directory.clone()));
    }
    if !files.is_directory(directory) {
        return Err(absent(files, directory));
    }
    let entry = |path, file: &Arc<FileData>| {
        let size = file.content().bytes().len() as u64;
        Entry { modified: file.modified(), ..Entry::file(path, size) }
    };
    Ok(Listing::jumping(directory, |from| files.first_from(from), entry))
}

impl Backend for StateBackend {
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
        Box::pin(async move {
            match find(state, &self.inner(path)) {
                Ok(file) => Ok(stat_of(file)),
                Err(FsError::IsDirectory(_)) => Ok(Stat::directory()),
                Err(FsError::NotFound(_)) if path.is_root() => Ok(Stat::directory()),
                Err(error) => Err(self.error(error)),
            }
        })
    }

    fn read<'a>(&'a self, state: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        Box::pin(async move {
            let file = self.file(state, path)?;
            Ok(FileRead { bytes: range.slice(&shared_bytes(file)), stat: stat_of(file) })
        })
    }

    fn read_lines<'a>(&'a self, state: &'a State, path: &'a VPath, range: LineRange) -> FsFuture<'a, LineWindow> {
        Box::pin(async move {
            let file = self.file(state, path)?;
            Ok(lines::window(file.content().bytes(), range, file.version().clone()))
        })
    }

    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
        Box::pin(async move {
            let files = map(state, path)?;
            match list(files, &self.inner(path)) {
                Err(FsError::NotFound(_)) if path.is_root() => Ok(Listing::default()),
                listed => Ok(listed.map_err(|error| self.error(error))?.map_paths(|path| self.outer(path))),
            }
        })
    }

    fn write<'a>(&'a self, state: &'a State, path: &'a VPath, data: Bytes, mode: WriteMode) -> FsFuture<'a, Written> {
        Box::pin(async move {
            let before = match self.file(state, path) {
                Ok(file) => Some(file),
                Err(FsError::NotFound(_)) => None,
                Err(error) => return Err(error),
            };
            mode.check(path, before.map(|file| file.version()))?;
            let file = FileData::written(&data, self.clock.now(), before.map(AsRef::as_ref));
            let version = file.version().clone();
            let update = Update::new::<Files>(FilesUpdate::from([(self.inner(path), Some(Arc::new(file)))]));
            Ok(Written { update, version })
        })
    }

    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        Box::pin(async move {
            if path.is_root() {
                return Err(FsError::Fixed(path.clone()));
            }
            let inner = self.inner(path);
            let gone: FilesUpdate = match self.file(state, path) {
                Ok(_) => FilesUpdate::from([(inner, None)]),
                Err(FsError::IsDirectory(_)) => {
                    map(state, path)?.below(&inner).into_iter().map(|(file, _)| (file.clone(), None)).collect()
                }
                Err(error) => return Err(error),
            };
            Ok(Update::new::<Files>(gone))
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { directories: false, ..Capabilities::default() }
    }

    fn shell_visible(&self, _: &VPath) -> bool {
        false
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<Files>()]
    }
}
