//! Files in a key-value store.

mod names;

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::env::{Clock, SystemClock};
use deepagents_core::state::{State, Update};
use deepagents_core::store::{Expected, Item, KeyInfo, KeyQuery, Store, StoreError, Write};
use futures_core::future::BoxFuture;

use crate::files::{FileData, shared_bytes};
use crate::locks::PathLocks;
use crate::search::{self, GlobOutcome, GlobQuery, GrepOutcome, GrepQuery};
use crate::{
    Backend, ByteRange, Capabilities, Entry, FileRead, FsError, FsFuture, Listing, PathGuard, Stat, VPath, Version,
    WriteMode, Written,
};
use names::Names;

/// Keys that are listed at once.
const PAGE: usize = 1000;

/// Files in a [`Store`], under one namespace: they outlive the thread and are shared by all that use the namespace.
///
/// The key is the path, the value a record as in the [`Files`](crate::Files) channel, the size that of the content.
/// Versions are the store's own, so a write under a condition is safe between processes, and so is the time at which a
/// file was last written. Directories exist as long as a file is below them; two processes that write `/a` and `/a/b`
/// at the same moment can still end up with both.
///
/// Listing, looking and finding by name ask the store for keys alone: whether a value is a file shows when it is read.
/// A search for lines reads a page of files at a time.
///
/// No command is taken to [reach](Backend::shell_visible) these files: keep the database of the store away from where
/// commands may go.
///
/// ```
/// use std::sync::Arc;
/// use deepagents_core::state::State;
/// use deepagents_core::store::MemoryStore;
/// use deepagents_fs::{Backend, ByteRange, StoreBackend, VPath, WriteMode};
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let files = StoreBackend::new(Arc::new(MemoryStore::default()), vec!["ada".to_owned(), "memories".to_owned()]);
/// let (state, path) = (State::default(), VPath::parse("/city.md")?);
/// files.write(&state, &path, "Turin".into(), WriteMode::Create).await?;
/// assert_eq!(&files.read(&state, &path, ByteRange::ALL).await?.bytes[..], b"Turin");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct StoreBackend {
    store: Arc<dyn Store>,
    namespace: Vec<String>,
    clock: Arc<dyn Clock>,
    locks: PathLocks,
}

impl StoreBackend {
    /// The files under a namespace.
    pub fn new(store: Arc<dyn Store>, namespace: Vec<String>) -> Self {
        Self { store, namespace, clock: Arc::new(SystemClock), locks: PathLocks::default() }
    }

    /// Dates the records of files by another clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    async fn keys(&self, path: &VPath, query: &KeyQuery) -> Result<Vec<KeyInfo>, FsError> {
        self.store.list_keys(&self.namespace, query).await.map_err(|error| failed(path, error))
    }

    /// What the store tells of a file without its content.
    async fn info(&self, path: &VPath) -> Result<Option<KeyInfo>, FsError> {
        if path.is_root() {
            return Ok(None);
        }
        // Of all keys that begin with it, the path itself comes first.
        let found = self.keys(path, &KeyQuery::default().prefix(path.as_str()).limit(1)).await?;
        Ok(found.into_iter().find(|info| info.key == path.as_str()))
    }

    async fn is_directory(&self, path: &VPath) -> Result<bool, FsError> {
        if path.is_root() {
            return Ok(true);
        }
        let mut query = below(path).limit(1);
        loop {
            let found = self.keys(path, &query).await?;
            if found.iter().any(|info| path_of(&info.key).is_some()) {
                return Ok(true);
            }
            let Some(last) = found.last() else { return Ok(false) };
            // What came first was not a file; such things are rare.
            query = query.after(&*last.key).limit(PAGE);
        }
    }

    /// The files below a directory, of what is deeper at least one in each child.
    async fn entries(&self, directory: &VPath) -> Result<Vec<Entry>, FsError> {
        let mut query = below(directory).limit(PAGE);
        let mut entries = Vec::new();
        loop {
            let found = self.keys(directory, &query).await?;
            entries.extend(found.iter().filter_map(|info| Some(entry_of(path_of(&info.key)?, info))));
            match found.last() {
                Some(last) if found.len() == PAGE => {
                    // What is no file says nothing of its child: files may follow in there.
                    let is_file = path_of(&last.key).is_some();
                    let end = if is_file { end_of_child(&query.prefix, &last.key) } else { String::new() };
                    query = query.after(end.max(last.key.clone()));
                }
                _ => return Ok(entries),
            }
        }
    }

    /// Why there is no file at a path.
    async fn absent(&self, path: &VPath) -> Result<FsError, FsError> {
        if self.is_directory(path).await? {
            return Ok(FsError::IsDirectory(path.clone()));
        }
        for above in path.ancestors() {
            if self.info(&above).await?.is_some() {
                return Ok(FsError::NotADirectory(above));
            }
        }
        Ok(FsError::NotFound(path.clone()))
    }

    /// The item of a file.
    async fn find(&self, path: &VPath) -> Result<Item, FsError> {
        if path.is_root() {
            return Err(FsError::IsDirectory(path.clone()));
        }
        let item = self.store.get(&self.namespace, path.as_str()).await.map_err(|error| failed(path, error))?;
        match item {
            Some(item) => Ok(item),
            None => Err(self.absent(path).await?),
        }
    }
}

/// The keys below a directory.
fn below(directory: &VPath) -> KeyQuery {
    KeyQuery::default().prefix(format!("{}/", directory.as_str().trim_end_matches('/')))
}

/// A text that comes after what is below the child of a directory that a key lies in; empty for a key of the directory
/// itself.
fn end_of_child(directory: &str, key: &str) -> String {
    let child = key.strip_prefix(directory).and_then(|rest| rest.split_once('/'));
    child.map(|(name, _)| format!("{directory}{name}/{}", char::MAX)).unwrap_or_default()
}

/// The path that a key is. Other values may be in the namespace: their keys are no paths, so they are no files.
fn path_of(key: &str) -> Option<VPath> {
    VPath::parse(key).ok().filter(|path| path.as_str() == key && !path.is_root())
}

fn failed(path: &VPath, error: StoreError) -> FsError {
    match error {
        StoreError::Conflict { .. } => FsError::Changed(path.clone()),
        error => FsError::io(path, ErrorKind::Other, error.to_string()),
    }
}

fn version_of(item: &Item) -> Version {
    Version::new(item.version.to_string())
}

fn stat_of(info: &KeyInfo) -> Stat {
    let version = Version::new(info.version.to_string());
    Stat { modified: info.updated_at.parse().ok(), ..Stat::file(info.size, version) }
}

fn entry_of(path: VPath, info: &KeyInfo) -> Entry {
    Entry { modified: info.updated_at.parse().ok(), ..Entry::file(path, info.size) }
}

fn file_of(path: &VPath, item: Item) -> Result<FileData, FsError> {
    serde_json::from_value(item.value)
        .map_err(|error| FsError::io(path, ErrorKind::InvalidData, format!("the stored value is not a file: {error}")))
}

fn read_of(path: &VPath, item: Item, range: ByteRange) -> Result<FileRead, FsError> {
    let info = KeyInfo::from(&item);
    let bytes = shared_bytes(&Arc::new(file_of(path, item)?));
    // What others have stored may tell another size.
    let stat = Stat { size: bytes.len() as u64, ..stat_of(&info) };
    Ok(FileRead { bytes: range.slice(&bytes), stat })
}

impl fmt::Debug for StoreBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreBackend").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Backend for StoreBackend {
    fn stat<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
        Box::pin(async move {
            if let Some(info) = self.info(path).await? {
                return Ok(stat_of(&info));
            }
            match self.absent(path).await? {
                FsError::IsDirectory(_) => Ok(Stat::directory()),
                error => Err(error),
            }
        })
    }

    fn read<'a>(&'a self, _: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        Box::pin(async move { read_of(path, self.find(path).await?, range) })
    }

    fn list<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
        Box::pin(async move {
            if self.info(path).await?.is_some() {
                return Err(FsError::NotADirectory(path.clone()));
            }
            let entries = self.entries(path).await?;
            if entries.is_empty() && !path.is_root() {
                return Err(self.absent(path).await?);
            }
            Listing::implied(path, entries)
        })
    }

    fn write<'a>(&'a self, _: &'a State, path: &'a VPath, data: Bytes, mode: WriteMode) -> FsFuture<'a, Written> {
        Box::pin(async move {
            let before = match self.find(path).await {
                Ok(item) => Some(item),
                Err(FsError::NotFound(_)) => None,
                Err(error) => return Err(error),
            };
            let there = before.as_ref().map(version_of);
            mode.check(path, there.as_ref())?;
            let before = before.map(|item| file_of(path, item)).transpose()?;
            let file = FileData::written(&data, self.clock.now(), before.as_ref());
            let broken = |error: serde_json::Error| FsError::io(path, ErrorKind::InvalidData, error.to_string());
            let value = serde_json::to_value(&file).map_err(broken)?;
            let expected = match &mode {
                WriteMode::Overwrite => Expected::Any,
                WriteMode::Create => Expected::Version(None),
                WriteMode::IfVersion(version) => {
                    let version = version.as_str().parse().map_err(|_| FsError::Changed(path.clone()))?;
                    Expected::Version(Some(version))
                }
            };
            let write = Write { expected, size: Some(data.len() as u64), ..Write::default() };
            match self.store.write(&self.namespace, path.as_str(), value, write).await {
                Ok(item) => Ok(Written { update: Update::none(), version: version_of(&item) }),
                Err(StoreError::Conflict { .. }) if mode == WriteMode::Create => {
                    Err(FsError::AlreadyExists(path.clone()))
                }
                Err(error) => Err(failed(path, error)),
            }
        })
    }

    fn delete<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        Box::pin(async move {
            if path.is_root() {
                return Err(FsError::Fixed(path.clone()));
            }
            let gone = match self.info(path).await? {
                Some(_) => vec![path.clone()],
                None => self.keys(path, &below(path)).await?.iter().filter_map(|info| path_of(&info.key)).collect(),
            };
            if gone.is_empty() {
                return Err(self.absent(path).await?);
            }
            for file in gone {
                self.store.delete(&self.namespace, file.as_str()).await.map_err(|error| failed(&file, error))?;
            }
            Ok(Update::none())
        })
    }

    fn glob<'a>(&'a self, state: &'a State, query: &'a GlobQuery) -> FsFuture<'a, GlobOutcome> {
        Box::pin(async move { search::glob(&Names::at(self, &query.scope.path).await?, state, query).await })
    }

    fn grep<'a>(&'a self, state: &'a State, query: &'a GrepQuery) -> FsFuture<'a, GrepOutcome> {
        Box::pin(async move {
            let names = Names::at(self, &query.scope.path).await?;
            let files = GlobQuery { pattern: query.files()?, scope: query.scope.clone(), max_files: None };
            let wanted = search::glob(&names, state, &files).await?.files;
            search::grep(&names.reading(wanted), state, query).await
        })
    }

    fn lock<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, Option<PathGuard>> {
        Box::pin(async move { Some(self.locks.lock(path).await) })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { directories: false, ..Capabilities::default() }
    }

    fn shell_visible(&self, _: &VPath) -> bool {
        false
    }
}
