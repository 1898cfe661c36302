//! Files in a key-value store.

mod names;

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use deepagents_core::env::{Clock, SystemClock};
use deepagents_core::state::{State, Update};
use deepagents_core::store::{Expected, Item, KeyInfo, KeyQuery, Store, StoreError, Write, check_namespace};
use futures_core::future::BoxFuture;

use crate::files::{FileData, shared_bytes};
use crate::locks::PathLocks;
use crate::search::{self, GlobOutcome, GlobQuery, GrepOutcome, GrepQuery};
use crate::{
    Backend, ByteRange, Capabilities, Entry, FileRead, FsError, FsFuture, Listing, PathGuard, Stat, VPath, Version,
    WriteMode, Written,
};
use names::Names;

/// Number of keys listed at a time.
const PAGE: usize = 1000;

/// Files in a [`Store`], under one namespace. They outlive the thread and are shared by everyone who uses the
/// namespace.
///
/// The key is the path, and the value a record as in the [`Files`](crate::Files) channel, with the size of the content.
/// Versions and modification times are the store's own, so conditional writes are safe between processes. A directory
/// exists while a file is below it; two processes that write `/a` and `/a/b` at the same time can still create both.
///
/// Listing, metadata and glob searches request only keys from the store: whether a value is a file shows only when it
/// is read. A search for lines reads files a page at a time.
///
/// Commands are assumed not to [reach](Backend::shell_visible) these files: keep the store's database out of their
/// reach.
///
/// ```
/// use deepagents_core::state::State;
/// use deepagents_core::store::MemoryStore;
/// use deepagents_fs::{Backend, ByteRange, StoreBackend, VPath, WriteMode};
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let files = StoreBackend::new(MemoryStore::default(), vec!["ada".to_owned(), "memories".to_owned()]);
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
    ttl: Option<Duration>,
    locks: PathLocks,
}

impl StoreBackend {
    /// Creates a backend for the files under a namespace. With one that is empty, or has a label that is empty, `*` or
    /// contains NUL, every operation fails.
    pub fn new(store: impl Store, namespace: Vec<String>) -> Self {
        Self { store: Arc::new(store), namespace, clock: Arc::new(SystemClock), ttl: None, locks: PathLocks::default() }
    }

    /// Sets the clock for the timestamps in file records.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets how long files live after they were last written; for ever by default. Every write starts the time anew,
    /// reading does not. Files written before keep the time that they were written with.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Returns the namespace if it is valid. Stores check it only when they are written to.
    fn namespace(&self, path: &VPath) -> Result<&[String], FsError> {
        check_namespace(&self.namespace).map_err(|error| failed(path, error))?;
        if self.namespace.iter().any(|label| label == "*") {
            let reason = "a label is `*`, which stands for any label in queries";
            return Err(failed(path, StoreError::Namespace { namespace: self.namespace.clone(), reason }));
        }
        Ok(&self.namespace)
    }

    async fn keys(&self, path: &VPath, query: &KeyQuery) -> Result<Vec<KeyInfo>, FsError> {
        self.store.list_keys(self.namespace(path)?, query).await.map_err(|error| failed(path, error))
    }

    /// Returns what the store knows of a file without its content.
    async fn info(&self, path: &VPath) -> Result<Option<KeyInfo>, FsError> {
        if path.is_root() {
            return Ok(None);
        }
        // Of all keys with this prefix, the path itself sorts first.
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
            // The first key was not a file, which is rare.
            query = query.after(&*last.key).limit(PAGE);
        }
    }

    /// Returns the files below a directory; of those deeper down, at least one in each child.
    async fn entries(&self, directory: &VPath) -> Result<Vec<Entry>, FsError> {
        let mut query = below(directory).limit(PAGE);
        let mut entries = Vec::new();
        loop {
            let found = self.keys(directory, &query).await?;
            entries.extend(found.iter().filter_map(|info| Some(entry_of(path_of(&info.key)?, info))));
            match found.last() {
                Some(last) if found.len() == PAGE => {
                    // A key that is not a file says nothing about its child, which may contain files.
                    let is_file = path_of(&last.key).is_some();
                    let end = if is_file { end_of_child(&query.prefix, &last.key) } else { String::new() };
                    query = query.after(end.max(last.key.clone()));
                }
                _ => return Ok(entries),
            }
        }
    }

    /// Returns the reason there is no file at a path.
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

    /// Returns the item of a file.
    async fn find(&self, path: &VPath) -> Result<Item, FsError> {
        if path.is_root() {
            return Err(FsError::IsDirectory(path.clone()));
        }
        let item = self.store.get(self.namespace(path)?, path.as_str()).await.map_err(|error| failed(path, error))?;
        match item {
            Some(item) => Ok(item),
            None => Err(self.absent(path).await?),
        }
    }
}

/// Returns a query for the keys below a directory.
fn below(directory: &VPath) -> KeyQuery {
    KeyQuery::default().prefix(format!("{}/", directory.as_str().trim_end_matches('/')))
}

/// Returns a text that sorts after everything in the same child of a directory as `key`; empty if `key` is directly in
/// the directory.
fn end_of_child(directory: &str, key: &str) -> String {
    let child = key.strip_prefix(directory).and_then(|rest| rest.split_once('/'));
    child.map(|(name, _)| format!("{directory}{name}/{}", char::MAX)).unwrap_or_default()
}

/// Returns the path of a key. The namespace may contain other values, whose keys are not paths, so they are not files.
fn path_of(key: &str) -> Option<VPath> {
    VPath::try_from(key.to_owned()).ok().filter(|path| path.as_str() == key && !path.is_root())
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
    // Another writer may have stored a different size.
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
            let write = Write { expected, ttl: self.ttl, size: Some(data.len() as u64) };
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
