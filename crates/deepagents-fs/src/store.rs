//! Files in a key-value store.

use std::collections::HashSet;
use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::env::{Clock, SystemClock};
use deepagents_core::state::{ChannelSpec, Schema, State, Update};
use deepagents_core::store::{Item, Query, Store, StoreError};
use futures_core::future::BoxFuture;

use crate::files::{FileData, Files, FilesUpdate, shared_bytes};
use crate::locks::PathLocks;
use crate::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery, Problems, Scope};
use crate::{
    Backend, ByteRange, Entry, FileRead, FsError, Kind, Listing, PathGuard, Stat, StateBackend, VPath, Version,
    WriteMode, Written,
};

/// Files in a [`Store`], under one namespace: they outlive the thread and are shared by all that use the namespace.
///
/// The key is the path, the value a record as in the [`Files`] channel. Versions are the store's own, so a write under
/// a condition is safe between processes. Directories exist as long as a file is below them; two processes that
/// write `/a` and `/a/b` at the same moment can still end up with both.
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

/// What a search looks at, and what is there that is no file.
struct Snapshot {
    state: State,
    problems: Problems,
}

/// Which of the items that a search has.
#[derive(Clone, Copy)]
struct Page {
    offset: usize,
    limit: usize,
}

impl StoreBackend {
    /// The files under a namespace.
    pub fn new(store: Arc<dyn Store>, namespace: Vec<String>) -> Self {
        Self { store, namespace, clock: Arc::new(SystemClock), locks: PathLocks::default() }
    }

    /// Dates files by another clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    async fn get(&self, path: &VPath) -> Result<Option<(Arc<FileData>, Version)>, FsError> {
        match self.store.get(&self.namespace, path.as_str()).await.map_err(|error| failed(path, error))? {
            Some(item) => file_of(path, item).map(Some),
            None => Ok(None),
        }
    }

    /// The items below a directory, in order of path.
    async fn below(&self, directory: &VPath) -> Result<Vec<(VPath, Item)>, FsError> {
        Ok(self.page(directory, Page { offset: 0, limit: usize::MAX }).await?.0)
    }

    /// Some of the items below a directory, and whether there may be more.
    async fn page(&self, directory: &VPath, page: Page) -> Result<(Vec<(VPath, Item)>, bool), FsError> {
        let Page { offset, limit } = page;
        let prefix = format!("{}/", directory.as_str().trim_end_matches('/'));
        let query = Query { key_prefix: prefix, offset, limit, ..Query::default() };
        let items = self.store.search(&self.namespace, &query).await.map_err(|error| failed(directory, error))?;
        // The namespace's own come first.
        let more = items.len() == limit && items.last().is_some_and(|item| item.namespace == self.namespace);
        // Deeper namespaces are other people's, and a key that is not a path is not a file.
        let mine = items.into_iter().filter(|item| item.namespace == self.namespace);
        let named = mine.filter_map(|item| {
            let path = VPath::parse(&item.key).ok()?;
            (path.as_str() == item.key && !path.is_root()).then_some((path, item))
        });
        Ok((named.collect(), more))
    }

    async fn is_directory(&self, path: &VPath) -> Result<bool, FsError> {
        if path.is_root() {
            return Ok(true);
        }
        let mut page = Page { offset: 0, limit: 1 };
        loop {
            let (files, more) = self.page(path, page).await?;
            if !files.is_empty() || !more {
                return Ok(!files.is_empty());
            }
            // What came first was not a file; such things are rare.
            page = Page { offset: page.offset + page.limit, limit: 256 };
        }
    }

    /// Why there is no file at a path.
    async fn absent(&self, path: &VPath) -> Result<FsError, FsError> {
        if self.is_directory(path).await? {
            return Ok(FsError::IsDirectory { path: path.clone() });
        }
        for above in path.ancestors() {
            if self.get(&above).await?.is_some() {
                return Ok(FsError::NotADirectory { path: above });
            }
        }
        Ok(FsError::NotFound { path: path.clone() })
    }

    async fn find(&self, path: &VPath) -> Result<(Arc<FileData>, Version), FsError> {
        match self.get(path).await? {
            Some(found) => Ok(found),
            None => Err(self.absent(path).await?),
        }
    }

    /// What a search looks at, as files in a state: one query of the store instead of one for each directory.
    async fn snapshot(&self, scope: &Scope) -> Result<Snapshot, FsError> {
        let path = &scope.path;
        let (mut files, mut problems) = (FilesUpdate::new(), Problems::default());
        if let Some((file, _)) = self.get(path).await? {
            files.insert(path.clone(), Some(file));
        } else {
            for (path, item) in self.below(path).await? {
                match file_of(&path, item) {
                    Ok((file, _)) => drop(files.insert(path, Some(file))),
                    Err(error) => problems.push(error),
                }
            }
        }
        if scope.respect_gitignore {
            for directory in path.ancestors() {
                let rules = directory.child(".gitignore");
                if let Some((file, _)) = self.get(&rules).await? {
                    files.insert(rules, Some(file));
                }
            }
        }
        if files.is_empty() && problems.count == 0 && !path.is_root() {
            return Err(self.absent(path).await?);
        }
        // Where there is a file and another below it, only the one above is found.
        let held: HashSet<VPath> = files.keys().cloned().collect();
        files.retain(|path, _| !path.ancestors().any(|above| held.contains(&above)));
        let broken = |reason: String| FsError::io(path, ErrorKind::InvalidData, reason);
        let schema = Schema::new([ChannelSpec::of::<Files>()]).map_err(|error| broken(error.to_string()))?;
        let mut state = State::new(Arc::new(schema));
        state.apply(&Update::of::<Files>(files)).map_err(|error| broken(error.to_string()))?;
        Ok(Snapshot { state, problems })
    }
}

fn failed(path: &VPath, error: StoreError) -> FsError {
    match error {
        StoreError::Conflict { .. } => FsError::Changed { path: path.clone() },
        error => FsError::io(path, ErrorKind::Other, error.to_string()),
    }
}

fn version_of(item: &Item) -> Version {
    Version::new(item.version.to_string())
}

fn file_of(path: &VPath, item: Item) -> Result<(Arc<FileData>, Version), FsError> {
    let version = version_of(&item);
    match serde_json::from_value(item.value) {
        Ok(file) => Ok((Arc::new(file), version)),
        Err(error) => {
            Err(FsError::io(path, ErrorKind::InvalidData, format!("the stored value is not a file: {error}")))
        }
    }
}

fn stat_of(file: &FileData, version: Version) -> Stat {
    Stat { modified: file.modified(), ..Stat::file(file.content().bytes().len() as u64, version) }
}

impl fmt::Debug for StoreBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreBackend").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Backend for StoreBackend {
    fn stat<'a>(&'a self, _: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Stat, FsError>> {
        Box::pin(async move {
            match self.find(path).await {
                Ok((file, version)) => Ok(stat_of(&file, version)),
                Err(FsError::IsDirectory { .. }) => Ok(Stat::directory()),
                Err(error) => Err(error),
            }
        })
    }

    fn read<'a>(&'a self, _: &'a State, path: &'a VPath, range: ByteRange) -> BoxFuture<'a, Result<FileRead, FsError>> {
        Box::pin(async move {
            let (file, version) = self.find(path).await?;
            Ok(FileRead { bytes: range.slice(&shared_bytes(&file)), stat: stat_of(&file, version) })
        })
    }

    fn list<'a>(&'a self, _: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Listing, FsError>> {
        Box::pin(async move {
            let items = self.below(path).await?;
            if self.get(path).await?.is_some() {
                return Err(FsError::NotADirectory { path: path.clone() });
            }
            if items.is_empty() && !path.is_root() {
                return Err(self.absent(path).await?);
            }
            let mut entries: Vec<Entry> = Vec::with_capacity(items.len());
            for (file, item) in items {
                entries.push(match file_of(&file, item) {
                    Ok((found, version)) => {
                        let stat = stat_of(&found, version);
                        Entry { modified: stat.modified, ..Entry::file(file, stat.size) }
                    }
                    // It takes its name, but is no file that can be read.
                    Err(_) => Entry { kind: Kind::Other, ..Entry::file(file, 0) },
                });
            }
            Listing::implied(path, entries)
        })
    }

    fn write<'a>(
        &'a self,
        _: &'a State,
        path: &'a VPath,
        data: Bytes,
        mode: WriteMode,
    ) -> BoxFuture<'a, Result<Written, FsError>> {
        Box::pin(async move {
            let before = match self.find(path).await {
                Ok(found) => Some(found),
                Err(FsError::NotFound { .. }) => None,
                Err(error) => return Err(error),
            };
            mode.check(path, before.as_ref().map(|(_, version)| version))?;
            let file = FileData::written(&data, self.clock.now(), before.as_ref().map(|(file, _)| &**file));
            let broken = |error: serde_json::Error| FsError::io(path, ErrorKind::InvalidData, error.to_string());
            let value = serde_json::to_value(&file).map_err(broken)?;
            let key = path.as_str();
            let item = match &mode {
                WriteMode::Overwrite => self.store.put(&self.namespace, key, value).await,
                WriteMode::Create => match self.store.put_if(&self.namespace, key, value, None).await {
                    Err(StoreError::Conflict { .. }) => return Err(FsError::AlreadyExists { path: path.clone() }),
                    result => result,
                },
                WriteMode::IfVersion(version) => {
                    let version = version.as_str().parse().map_err(|_| FsError::Changed { path: path.clone() })?;
                    self.store.put_if(&self.namespace, key, value, Some(version)).await
                }
            };
            let item = item.map_err(|error| failed(path, error))?;
            Ok(Written { update: Update::none(), version: version_of(&item) })
        })
    }

    fn delete<'a>(&'a self, _: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Update, FsError>> {
        Box::pin(async move {
            if path.is_root() {
                return Err(FsError::Fixed { path: path.clone() });
            }
            let gone: Vec<VPath> = match self.find(path).await {
                Ok(_) => vec![path.clone()],
                Err(FsError::IsDirectory { .. }) => self.below(path).await?.into_iter().map(|(file, _)| file).collect(),
                Err(error) => return Err(error),
            };
            for file in gone {
                self.store.delete(&self.namespace, file.as_str()).await.map_err(|error| failed(&file, error))?;
            }
            Ok(Update::none())
        })
    }

    fn glob<'a>(&'a self, _: &'a State, query: &'a GlobQuery) -> BoxFuture<'a, Result<GlobOutcome, FsError>> {
        Box::pin(async move {
            let Snapshot { state, problems } = self.snapshot(&query.scope).await?;
            let mut out = StateBackend::new().glob(&state, query).await?;
            out.problems.extend(problems);
            Ok(out)
        })
    }

    fn grep<'a>(&'a self, _: &'a State, query: &'a GrepQuery) -> BoxFuture<'a, Result<GrepOutcome, FsError>> {
        Box::pin(async move {
            let Snapshot { state, problems } = self.snapshot(&query.scope).await?;
            let mut out = StateBackend::new().grep(&state, query).await?;
            out.problems.extend(problems);
            Ok(out)
        })
    }

    fn lock<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, Option<PathGuard>> {
        Box::pin(async move { Some(self.locks.lock(path).await) })
    }
}
