//! Several backends under one root.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{ChannelSpec, State, Update};
use futures_core::future::BoxFuture;
use futures_util::future::join_all;

use crate::lines::{LineRange, LineWindow};
use crate::permissions::AccessMode;
use crate::search::{
    Collector, GlobOutcome, GlobQuery, GrepOutcome, GrepQuery, PathFilter, Scope, Truncation, WalkErrors,
};
use crate::shell::Shell;
use crate::{
    Backend, ByteRange, Capabilities, Entry, FileRead, FsError, FsFuture, Listing, PathGuard, Stat, VPath, WriteMode,
    Written,
};

/// Backends mounted at directories of another backend. A path belongs to the longest route that is a prefix of it.
///
/// Routes appear in the listings of their parent directories and hide whatever the underlying backend has there. A
/// search runs on all backends concurrently. Neither a route nor a directory above one can be deleted.
///
/// ```
/// use deepagents_fs::{CompositeBackend, StateBackend, VPath};
/// # use deepagents_fs::LocalBackend;
/// # let dir = tempfile::tempdir()?;
/// let disk = LocalBackend::open(dir.path())?;
/// let files = CompositeBackend::new(disk).route(VPath::parse("/scratch")?, StateBackend::new());
/// assert_eq!(files.routes().collect::<Vec<_>>(), [&VPath::parse("/scratch")?]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CompositeBackend {
    /// Longest path first; the root is last.
    mounts: Vec<Mount>,
}

#[derive(Clone, Debug)]
struct Mount {
    path: VPath,
    backend: Arc<dyn Backend>,
}

impl CompositeBackend {
    /// Creates a composite with one backend at the root.
    pub fn new(backend: impl Backend) -> Self {
        Self { mounts: vec![Mount { path: VPath::root(), backend: Arc::new(backend) }] }
    }

    /// Mounts a backend at a directory, replacing any backend mounted there.
    #[must_use]
    pub fn route(mut self, path: VPath, backend: impl Backend) -> Self {
        self.mounts.retain(|mount| mount.path != path);
        self.mounts.push(Mount { path, backend: Arc::new(backend) });
        self.mounts
            .sort_by(|a, b| b.path.components().count().cmp(&a.path.components().count()).then(a.path.cmp(&b.path)));
        self
    }

    /// Returns the directories of the routes, without the root.
    pub fn routes(&self) -> impl Iterator<Item = &VPath> {
        self.mounts.iter().map(|mount| &mount.path).filter(|path| !path.is_root())
    }

    /// Returns the mount that a path belongs to and the path inside it.
    fn find(&self, path: &VPath) -> Result<(&Mount, VPath), FsError> {
        let belongs = |mount: &'_ Mount| path.strip_prefix(&mount.path);
        let found = self.mounts.iter().find_map(|mount| Some((mount, belongs(mount)?)));
        found.ok_or_else(|| FsError::NotFound(path.clone()))
    }

    /// Returns whether any routes are mounted below a path.
    fn leads_to_route(&self, path: &VPath) -> bool {
        self.routes().any(|route| route != path && route.starts_with(path))
    }

    /// Returns whether the path is the root, a route or an ancestor of a route.
    fn is_fixed(&self, path: &VPath) -> bool {
        path.is_root() || self.routes().any(|route| route.starts_with(path))
    }

    /// Returns the searches that a search of `scope` runs, one for each mount involved.
    fn scopes(&self, scope: &Scope) -> Result<Vec<Search<'_>>, FsError> {
        let (owner, inner) = self.find(&scope.path)?;
        let below = self.mounts.iter().filter(|mount| mount.path != scope.path && mount.path.starts_with(&scope.path));
        let mut out = vec![self.search(owner, inner, scope, VPath::root())];
        for mount in below {
            let passed = mount.path.strip_prefix(&scope.path).unwrap_or_default();
            out.push(self.search(mount, VPath::root(), scope, passed));
        }
        Ok(out)
    }

    /// Calls the backend that a file belongs to. A route, or an ancestor of one, is a directory and fails with
    /// [`FsError::IsDirectory`].
    fn at<'a, T: 'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        call: impl for<'b> FnOnce(&'b dyn Backend, &'b State, &'b VPath) -> FsFuture<'b, T> + Send + 'a,
    ) -> FsFuture<'a, T> {
        Box::pin(async move {
            if self.is_fixed(path) {
                return Err(FsError::IsDirectory(path.clone()));
            }
            let (mount, inner) = self.find(path)?;
            call(&*mount.backend, state, &inner).await.map_err(|error| mount.error(error))
        })
    }

    fn search<'a>(&'a self, mount: &'a Mount, path: VPath, scope: &Scope, passed: VPath) -> Search<'a> {
        let (base, before) = (mount.path.clone(), scope.visible.clone());
        let hiding: Vec<VPath> =
            self.routes().filter(|route| **route != base && route.starts_with(&base)).cloned().collect();
        let visible: Option<PathFilter> = if hiding.is_empty() && before.is_none() {
            None
        } else {
            Some(Arc::new(move |path: &VPath| {
                let path = path.under(&base);
                // A route hides what lies at or below its path, and any file in the place of one of its parent
                // directories.
                !hiding.iter().any(|route| path.starts_with(route) || route.starts_with(&path))
                    && before.as_ref().is_none_or(|sees| sees(&path))
            }))
        };
        Search { mount, scope: Scope { path, visible, ..scope.clone() }, passed }
    }
}

/// A search of one mount.
struct Search<'a> {
    mount: &'a Mount,
    scope: Scope,
    /// Path from the searched directory to the mount.
    passed: VPath,
}

impl Mount {
    fn outer(&self, path: &VPath) -> VPath {
        path.under(&self.path)
    }

    fn error(&self, error: FsError) -> FsError {
        error.map_path(|path| self.outer(path))
    }
}

/// Returns whether the searched path is missing in its own backend, which is no error if there are routes below it.
fn is_missing(error: &FsError) -> bool {
    matches!(error, FsError::NotFound(_) | FsError::NotADirectory(_))
}

/// Merges the results of searching several mounts. If there are several, the failure of one is recorded and does not
/// fail the search, unless the pattern is invalid.
fn gather<T>(results: Vec<Result<T, FsError>>, mut take: impl FnMut(T) -> WalkErrors) -> Result<WalkErrors, FsError> {
    let several = results.len() > 1;
    let mut errors = WalkErrors::default();
    for result in results {
        match result {
            Ok(found) => errors.extend(take(found)),
            Err(error) if several && is_missing(&error) => {}
            Err(error) if several && !matches!(error, FsError::Pattern { .. }) => errors.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(errors)
}

impl Backend for CompositeBackend {
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
        if self.is_fixed(path) {
            return Box::pin(async { Ok(Stat::directory()) });
        }
        self.at(state, path, |backend, state, path| backend.stat(state, path))
    }

    fn read<'a>(&'a self, state: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        self.at(state, path, move |backend, state, path| backend.read(state, path, range))
    }

    fn read_to_change<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, FileRead> {
        self.at(state, path, move |backend, state, path| backend.read_to_change(state, path))
    }

    fn read_lines<'a>(&'a self, state: &'a State, path: &'a VPath, range: LineRange) -> FsFuture<'a, LineWindow> {
        self.at(state, path, move |backend, state, path| backend.read_lines(state, path, range))
    }

    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
        Box::pin(async move {
            let (mount, inner) = self.find(path)?;
            let leads = self.leads_to_route(path);
            // This mount has no directories of its own but another mount does, so callers expect an error for a missing
            // one. Only this method can tell that here a missing directory is equivalent to an empty one.
            let implied = self.capabilities().directories && !mount.backend.capabilities().directories;
            let listed = match mount.backend.list(state, &inner).await {
                Err(error) if leads && is_missing(&error) => Listing::default(),
                Err(FsError::NotFound(_)) if implied => Listing::default(),
                result => result.map_err(|error| mount.error(error))?,
            };
            let Listing { entries: own, unnameable } = listed.map_paths(|path| mount.outer(path));
            let below = self.routes().filter(|route| *route != path);
            let routed: Vec<VPath> =
                below.filter_map(|route| Some(path.child(route.strip_prefix(path)?.components().next()?))).collect();
            let own = own.into_iter().filter(|entry| !routed.contains(&entry.path));
            let entries = own.chain(routed.iter().cloned().map(Entry::directory));
            Ok(Listing { unnameable, ..Listing::from_entries(entries) })
        })
    }

    fn write<'a>(&'a self, state: &'a State, path: &'a VPath, data: Bytes, mode: WriteMode) -> FsFuture<'a, Written> {
        self.at(state, path, move |backend, state, path| backend.write(state, path, data, mode))
    }

    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        if self.is_fixed(path) {
            return Box::pin(async move { Err(FsError::Fixed(path.clone())) });
        }
        self.at(state, path, |backend, state, path| backend.delete(state, path))
    }

    fn glob<'a>(&'a self, state: &'a State, query: &'a GlobQuery) -> FsFuture<'a, GlobOutcome> {
        Box::pin(async move {
            let searches = self.scopes(&query.scope)?.into_iter().map(|search| async move {
                let pattern = query.pattern.inside(&search.passed);
                let inner = GlobQuery { pattern, scope: search.scope, max_files: query.max_files };
                let found = search.mount.backend.glob(state, &inner).await.map_err(|error| search.mount.error(error));
                found.map(|found| found.map_paths(|path| search.mount.outer(path)))
            });
            let mut out = GlobOutcome::default();
            out.errors = gather(join_all(searches).await, |found: GlobOutcome| {
                out.files.extend(found.files);
                out.truncation = out.truncation.or(found.truncation);
                found.errors
            })?;
            out.files.sort();
            if let Some(max) = query.max_files.filter(|max| out.files.len() > *max) {
                out.files.truncate(max);
                out.truncation = Some(Truncation::Limit);
            }
            Ok(out)
        })
    }

    fn grep<'a>(&'a self, state: &'a State, query: &'a GrepQuery) -> FsFuture<'a, GrepOutcome> {
        Box::pin(async move {
            let searches = self.scopes(&query.scope)?.into_iter().map(|search| async move {
                let glob = query.glob.as_ref().map(|glob| glob.inside(&search.passed));
                // Without a glob, the search skips a route below a dot directory, as the query does not name it.
                let hidden = glob.is_none() && search.passed.components().any(|name| name.starts_with('.'));
                if hidden {
                    return Ok(GrepOutcome::default());
                }
                let inner = GrepQuery { glob, scope: search.scope, ..query.clone() };
                let found = search.mount.backend.grep(state, &inner).await.map_err(|error| search.mount.error(error));
                found.map(|found| found.map_paths(|path| search.mount.outer(path)))
            });
            let mut found = GrepOutcome::default();
            found.errors = gather(join_all(searches).await, |out: GrepOutcome| {
                found.files.extend(out.files);
                found.binary += out.binary;
                found.truncation = found.truncation.or(out.truncation);
                out.errors
            })?;
            found.files.sort_by(|a, b| a.path.cmp(&b.path));
            let mut collector = Collector::new(query.max_count);
            collector.add(0, found);
            Ok(collector.finish(false))
        })
    }

    fn resolve<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, VPath> {
        Box::pin(async move {
            let (mount, inner) = self.find(path)?;
            let real = mount.backend.resolve(state, &inner).await;
            real.map(|real| mount.outer(&real)).map_err(|error| mount.error(error))
        })
    }

    fn lock<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, Option<PathGuard>> {
        Box::pin(async move {
            let (mount, inner) = self.find(path).ok()?;
            mount.backend.lock(&inner).await
        })
    }

    fn capabilities(&self) -> Capabilities {
        let all = self.mounts.iter().map(|mount| mount.backend.capabilities());
        let nothing = Capabilities { write: false, delete: false, directories: false };
        all.fold(nothing, |a, b| Capabilities {
            write: a.write || b.write,
            delete: a.delete || b.delete,
            directories: a.directories || b.directories,
        })
    }

    /// The shell of the root backend, which sees only that backend's files.
    fn shell(&self) -> Option<&dyn Shell> {
        self.mounts.iter().find(|mount| mount.path.is_root())?.backend.shell()
    }

    fn pinned(&self, path: &VPath, place: &VPath) -> Option<Arc<dyn Backend>> {
        let (mount, inner) = self.find(path).ok()?;
        let pinned = mount.backend.pinned(&inner, &place.strip_prefix(&mount.path)?)?;
        Some(Arc::new(self.clone().route(mount.path.clone(), pinned)))
    }

    fn change_access<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, AccessMode> {
        Box::pin(async move {
            match self.find(path) {
                // A change of a route fails in any case, so nobody needs to be asked about it.
                Ok((mount, inner)) if !self.is_fixed(path) => mount.backend.change_access(&inner).await,
                _ => AccessMode::Allow,
            }
        })
    }

    fn shell_visible(&self, path: &VPath) -> bool {
        let at = self.find(path).map_or(true, |(mount, inner)| mount.backend.shell_visible(&inner));
        let mut below = self.mounts.iter().filter(|mount| mount.path != *path && mount.path.starts_with(path));
        at || below.any(|mount| mount.backend.shell_visible(&VPath::root()))
    }

    /// The routes and what the root backend says of itself, without directories below others.
    fn shell_unreachable(&self) -> Vec<VPath> {
        let root = self.mounts.iter().find(|mount| mount.path.is_root());
        let of_root = root.into_iter().flat_map(|mount| mount.backend.shell_unreachable());
        let all: BTreeSet<VPath> = self.routes().cloned().chain(of_root).collect();
        let is_topmost = |path: &&VPath| path.ancestors().all(|above| !all.contains(&above));
        all.iter().filter(is_topmost).cloned().collect()
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        self.mounts.iter().flat_map(|mount| mount.backend.channels()).collect()
    }
}
