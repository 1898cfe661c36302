//! Searches any backend through its listings and reads.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use deepagents_core::state::State;

use super::{
    Collector, Control, GlobOutcome, GlobQuery, GrepOutcome, GrepQuery, Ignores, LineMatcher, MAX_FILES, Pattern,
    Progress, Scope, Truncation, WalkErrors, sibling_order,
};
use crate::{Backend, ByteRange, Entry, FileRead, FsError, Kind, Stat, VPath, classify};

/// Finds files by listing directories. The default implementation of [`Backend::glob`].
///
/// # Errors
/// Returns an error if the pattern or the path of the query is invalid.
pub async fn glob<B: Backend + ?Sized>(backend: &B, state: &State, query: &GlobQuery) -> Result<GlobOutcome, FsError> {
    let control = Control::new(query.scope.deadline);
    let most = query.max_files.unwrap_or(usize::MAX);
    let mut walk = Walk::start(backend, state, &query.scope, &query.pattern, false).await?;
    let mut out = GlobOutcome::default();
    while let Some(file) = walk.next(&control).await {
        if out.files.len() == most.min(MAX_FILES) {
            out.truncation = Some(Truncation::Limit);
            break;
        }
        out.files.push(file);
    }
    if control.is_late() {
        out.truncation = Some(Truncation::Deadline);
    }
    out.errors = walk.errors;
    Ok(out)
}

/// Bytes of files searched in one batch.
const BATCH_BYTES: usize = 1 << 20;

/// How long the search of files already read may continue after the deadline.
const GRACE: Duration = Duration::from_secs(1);

/// Size limit of a searched file in bytes. Backends that stream files have their own implementation.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Finds lines by listing directories and reading files. The default implementation of [`Backend::grep`].
///
/// # Errors
/// Returns an error if a pattern or the path of the query is invalid.
pub async fn grep<B: Backend + ?Sized>(backend: &B, state: &State, query: &GrepQuery) -> Result<GrepOutcome, FsError> {
    let control = Control::new(query.scope.deadline);
    let _stop = control.stop_on_drop();
    let (own, path) = (query.clone(), &query.scope.path);
    // Literal text compiles quickly.
    let matcher = match query.regex {
        true => blocking(path, move || LineMatcher::new(&own)).await??,
        false => LineMatcher::new(query)?,
    };
    let matcher = Arc::new(matcher);
    let pattern = query.files()?;
    let mut walk = Walk::start(backend, state, &query.scope, &pattern, query.glob.is_none()).await?;
    let mut collector = Collector::new(query.max_count);
    for number in 0.. {
        let (mut batch, mut size, mut found) = (Vec::new(), 0, GrepOutcome::default());
        while size < BATCH_BYTES && batch.len() < 256 {
            let Some(path) = walk.next(&control).await else { break };
            match read_whole(backend, state, &path).await {
                Ok(file) => {
                    let decoded = classify::utf16_text(&file.bytes).map(Bytes::from);
                    let Some(bytes) = decoded.or_else(|| Some(file.bytes).filter(|bytes| !classify::is_binary(bytes)))
                    else {
                        found.binary += 1;
                        continue;
                    };
                    size += bytes.len();
                    batch.push((path, bytes));
                }
                Err(error) => found.errors.push(error),
            }
        }
        let last = batch.is_empty();
        let found = search(&matcher, batch, found, &control, &query.scope.path).await?;
        if collector.add(number, found) || last {
            break;
        }
    }
    let mut out = collector.finish(control.is_late());
    out.errors.extend(walk.errors);
    Ok(out)
}

/// Reads a file that is small enough to hold in memory.
async fn read_whole<B: Backend + ?Sized>(backend: &B, state: &State, path: &VPath) -> Result<FileRead, FsError> {
    let file = backend.read(state, path, ByteRange::first(MAX_FILE_BYTES + 1)).await?;
    if file.bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(FsError::TooLarge { path: path.clone(), size: file.stat.size, limit: MAX_FILE_BYTES });
    }
    Ok(file)
}

/// Runs CPU-bound work on the blocking thread pool.
async fn blocking<T: Send + 'static>(path: &VPath, work: impl FnOnce() -> T + Send + 'static) -> Result<T, FsError> {
    let lost = |_| FsError::io(path, std::io::ErrorKind::Other, "the search did not finish");
    tokio::task::spawn_blocking(work).await.map_err(lost)
}

async fn search(
    matcher: &Arc<LineMatcher>,
    batch: Vec<(VPath, Bytes)>,
    mut found: GrepOutcome,
    control: &Control,
    root: &VPath,
) -> Result<GrepOutcome, FsError> {
    if batch.is_empty() {
        return Ok(found);
    }
    // Files read before the deadline are searched, unless that takes too long as well.
    let (matcher, control) = (matcher.clone(), control.with_grace(GRACE));
    let work = move || {
        let mut searcher = matcher.searcher();
        for (path, content) in batch {
            if control.stopped() {
                break;
            }
            match matcher.slice(&mut searcher, &content, &control) {
                Ok(lines) => found.push(path, lines),
                Err(error) => found.errors.push(FsError::from_io(&path, &error)),
            }
        }
        found
    };
    blocking(root, work).await
}

/// Walks the files of a scope that match a pattern, in path order.
struct Walk<'a, B: ?Sized> {
    backend: &'a B,
    state: &'a State,
    scope: &'a Scope,
    pattern: &'a Pattern,
    /// Remaining visits, in reverse order.
    todo: Vec<Visit>,
    errors: WalkErrors,
}

enum Visit {
    File(VPath),
    Directory { path: VPath, progress: Progress, ignores: Ignores },
}

impl<'a, B: Backend + ?Sized> Walk<'a, B> {
    /// With `any_name`, if the scope is a single file, it is visited whatever its name.
    async fn start(
        backend: &'a B,
        state: &'a State,
        scope: &'a Scope,
        pattern: &'a Pattern,
        any_name: bool,
    ) -> Result<Self, FsError> {
        let mut walk = Self { backend, state, scope, pattern, todo: Vec::new(), errors: WalkErrors::default() };
        let path = scope.path.clone();
        let Stat { kind, .. } = backend.stat(state, &path).await?;
        match kind {
            Kind::Directory => {
                let mut ignores = Ignores::default();
                if scope.respect_gitignore {
                    for directory in path.ancestors_from_root() {
                        ignores = walk.enter(&ignores, &directory).await;
                    }
                }
                walk.todo.push(Visit::Directory { path, progress: pattern.start(), ignores });
            }
            Kind::File => {
                if any_name || pattern.matches(path.name().unwrap_or_default()) {
                    walk.todo.push(Visit::File(path));
                }
            }
            Kind::Other => return Err(FsError::Special(path)),
        }
        Ok(walk)
    }

    async fn enter(&mut self, ignores: &Ignores, directory: &VPath) -> Ignores {
        let file = directory.child(".gitignore");
        match self.backend.read(self.state, &file, ByteRange::first(1 << 20)).await {
            Ok(file) => {
                let (ignores, error) = ignores.enter(directory, &file.bytes);
                error.into_iter().for_each(|error| self.errors.push(error));
                ignores
            }
            Err(_) => ignores.clone(),
        }
    }

    async fn next(&mut self, control: &Control) -> Option<VPath> {
        while let Some(visit) = self.todo.pop() {
            if control.stopped() {
                return None;
            }
            match visit {
                Visit::File(path) if self.scope.sees(&path) => return Some(path),
                Visit::File(_) => {}
                Visit::Directory { path, progress, ignores } => self.descend(&path, &progress, ignores).await,
            }
        }
        None
    }

    async fn descend(&mut self, path: &VPath, progress: &Progress, mut ignores: Ignores) {
        let listing = match self.backend.list(self.state, path).await {
            Ok(listing) => listing,
            Err(error) => return self.errors.push(error),
        };
        self.errors.unnameable += listing.unnameable;
        let named = |entry: &Entry| entry.path.name() == Some(".gitignore");
        if self.scope.respect_gitignore && listing.entries.iter().any(named) {
            ignores = self.enter(&ignores, path).await;
        }
        let mut entries = listing.entries;
        entries.retain(|entry| !entry.link && entry.kind != Kind::Other);
        let directory = |entry: &Entry| entry.kind == Kind::Directory;
        entries.sort_by(|a, b| sibling_order((a.path.as_str(), directory(a)), (b.path.as_str(), directory(b))));
        for entry in entries.into_iter().rev() {
            let Some(name) = entry.path.name() else { continue };
            let is_directory = directory(&entry);
            if ignores.hides(&entry.path, is_directory) {
                continue;
            }
            if !is_directory {
                if self.pattern.ends(progress, name) {
                    self.todo.push(Visit::File(entry.path));
                }
                continue;
            }
            let below = self.pattern.enter(progress, name);
            if !below.is_dead() {
                self.todo.push(Visit::Directory { path: entry.path, progress: below, ignores: ignores.clone() });
            }
        }
    }
}
