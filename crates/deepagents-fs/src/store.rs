//! Files in a key-value store.

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::env::{Clock, SystemClock};
use deepagents_core::state::{ChannelSpec, Schema, State, Update};
use deepagents_core::store::{Item, Query, Store, StoreError};
use futures_core::future::BoxFuture;

use crate::files::{FileData, Files, FilesUpdate, shared_bytes};
use crate::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery, Scope};
use crate::{
    Backend, ByteRange, Entry, FileRead, FsError, Listing, Stat, StateBackend, VPath, Version, WriteMode, Written,
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
}

impl StoreBackend {
    /// The files under a namespace.
    pub fn new(store: Arc<dyn Store>, namespace: Vec<String>) -> Self {
        Self { store, namespace, clock: Arc::new(SystemClock) }
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
    async fn below(&self, directory: &VPath, limit: usize) -> Result<Vec<(VPath, Item)>, FsError> {
        let prefix = format!("{}/", directory.as_str().trim_end_matches('/'));
        let query = Query { key_prefix: prefix, limit, ..Query::default() };
        let items = self.store.search(&self.namespace, &query).await.map_err(|error| failed(directory, error))?;
        // Deeper namespaces are other people's, and a key that is not a path is not a file.
        let mine = items.into_iter().filter(|item| item.namespace == self.namespace);
        let named = mine.filter_map(|item| {
            let path = VPath::parse(&item.key).ok()?;
            (path.as_str() == item.key && !path.is_root()).then_some((path, item))
        });
        Ok(named.collect())
    }

    async fn is_directory(&self, path: &VPath) -> Result<bool, FsError> {
        Ok(path.is_root() || !self.below(path, usize::MAX).await?.is_empty())
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
    async fn snapshot(&self, scope: &Scope) -> Result<(StateBackend, State), FsError> {
        let path = &scope.path;
        let mut files = FilesUpdate::new();
        if let Some((file, _)) = self.get(path).await? {
            files.insert(path.clone(), Some(file));
        } else {
            for (path, item) in self.below(path, usize::MAX).await? {
                files.insert(path.clone(), Some(file_of(&path, item)?.0));
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
        if files.is_empty() && !path.is_root() {
            return Err(self.absent(path).await?);
        }
        let broken = |reason: String| FsError::io(path, ErrorKind::InvalidData, reason);
        let schema = Schema::new([ChannelSpec::of::<Files>()]).map_err(|error| broken(error.to_string()))?;
        let mut state = State::new(Arc::new(schema));
        state.apply(&Update::of::<Files>(files)).map_err(|error| broken(error.to_string()))?;
        Ok((StateBackend::new(), state))
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
            let items = self.below(path, usize::MAX).await?;
            if self.get(path).await?.is_some() {
                return Err(FsError::NotADirectory { path: path.clone() });
            }
            if items.is_empty() && !path.is_root() {
                return Err(self.absent(path).await?);
            }
            let mut entries: Vec<Entry> = Vec::new();
            for (file, item) in items {
                let below = file.strip_prefix(path).unwrap_or_default();
                let mut names = below.components();
                let Some(name) = names.next() else { continue };
                let child = path.child(name);
                if names.next().is_some() {
                    entries.push(Entry::directory(child));
                } else {
                    let (file, version) = file_of(&child, item)?;
                    let stat = stat_of(&file, version);
                    entries.push(Entry { modified: stat.modified, ..Entry::file(child, stat.size) });
                }
            }
            Ok(Listing::of(entries))
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
                Err(FsError::IsDirectory { .. }) => {
                    self.below(path, usize::MAX).await?.into_iter().map(|(file, _)| file).collect()
                }
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
            let (files, state) = self.snapshot(&query.scope).await?;
            files.glob(&state, query).await
        })
    }

    fn grep<'a>(&'a self, _: &'a State, query: &'a GrepQuery) -> BoxFuture<'a, Result<GrepOutcome, FsError>> {
        Box::pin(async move {
            let (files, state) = self.snapshot(&query.scope).await?;
            files.grep(&state, query).await
        })
    }
}
