//! What a store of files must do, and what it gets for it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{ChannelSpec, State, Update};
use futures_core::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::lines::{LineRange, LineWindow};
use crate::permissions::AccessMode;
use crate::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery};
use crate::shell::Shell;
use crate::{FsError, VPath, lines, search};

/// The future of an operation on files.
pub type FsFuture<'a, T> = BoxFuture<'a, Result<T, FsError>>;

/// A store of files. Five methods are required; the rest have defaults built on them.
///
/// The state of the thread is handed in and changes to it are handed back, so that a store inside the state
/// ([`StateBackend`](crate::StateBackend)) and one outside look the same to their users.
///
/// The example `backend` of the crate `deepagents` is one in under sixty lines; `backend_suite!` of
/// `deepagents-testing` says of any whether it keeps the rules.
///
/// ```
/// use deepagents_core::state::{State, Update};
/// use deepagents_fs::{Backend, ByteRange, FsError, VPath, WriteMode};
///
/// /// Copies a file to where none is; the caller applies the update.
/// async fn copy(files: &dyn Backend, state: &State, from: &VPath, to: &VPath) -> Result<Update, FsError> {
///     let file = files.read(state, from, ByteRange::ALL).await?;
///     Ok(files.write(state, to, file.bytes, WriteMode::Create).await?.update)
/// }
/// ```
pub trait Backend: Send + Sync + 'static {
    /// What is at a path; symbolic links are followed.
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Stat>;

    /// Bytes of a file. A range that begins past the end gives none.
    fn read<'a>(&'a self, state: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead>;

    /// A whole file that is about to be edited, of [`edit::MAX_BYTES`](crate::edit::MAX_BYTES) at most. It is bound by the rules about writing, where [`read`](Self::read) is
    /// bound by those about reading.
    fn read_to_change<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, FileRead> {
        Box::pin(async move {
            let limit = crate::edit::MAX_BYTES;
            let file = self.read(state, path, ByteRange::first(limit + 1)).await?;
            if file.stat.size.max(file.bytes.len() as u64) > limit {
                return Err(FsError::TooLarge { path: path.clone(), size: file.stat.size, limit });
            }
            Ok(file)
        })
    }

    /// The direct children of a directory, sorted by path.
    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Listing>;

    /// Writes a whole file, with the directories above it. A path is a file or a directory, not both.
    fn write<'a>(&'a self, state: &'a State, path: &'a VPath, data: Bytes, mode: WriteMode) -> FsFuture<'a, Written>;

    /// Deletes a file, or a directory with all it holds; a symbolic link, not what it leads to. The root is refused.
    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update>;

    /// A window of a text file's lines. The default reads the file whole.
    fn read_lines<'a>(&'a self, state: &'a State, path: &'a VPath, range: LineRange) -> FsFuture<'a, LineWindow> {
        Box::pin(async move {
            let file = self.read(state, path, ByteRange::ALL).await?;
            Ok(lines::window(&file.bytes, range, file.stat.version))
        })
    }

    /// Finds files by name.
    fn glob<'a>(&'a self, state: &'a State, query: &'a GlobQuery) -> FsFuture<'a, GlobOutcome> {
        Box::pin(search::glob(self, state, query))
    }

    /// Finds lines by content.
    fn grep<'a>(&'a self, state: &'a State, query: &'a GrepQuery) -> FsFuture<'a, GrepOutcome> {
        Box::pin(search::grep(self, state, query))
    }

    /// The path that a path leads to once symbolic links are followed; what does not exist stays as written. A store
    /// without links gives the path back.
    fn resolve<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, VPath> {
        let _ = state;
        Box::pin(async move { Ok(path.clone()) })
    }

    /// The same store, in which a path leads to a place and nowhere else: what is done at the path is done there, and where
    /// a link has come to be on the way to the place, it fails with [`FsError::LeadsElsewhere`]. Whoever has judged a path by
    /// where it [leads](Self::resolve) does by this what was judged; between two looks somebody may exchange a directory
    /// for a link. None where no path leads through links, or where nobody can see to it. A wrapper that leaves paths to
    /// a backend inside asks that one.
    fn leading(&self, path: &VPath, place: &VPath) -> Option<Arc<dyn Backend>> {
        let _ = (path, place);
        None
    }

    /// Waits for its turn to change a file; the turn ends when the guard is dropped. Stores whose files change only
    /// through updates of the state need none.
    fn lock<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, Option<PathGuard>> {
        let _ = path;
        Box::pin(async { None })
    }

    /// What the store can do.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// What the store says about changing what is at a path, with all below it, before anybody tries:
    /// [`Deny`](AccessMode::Deny) where it refuses, [`Ask`](AccessMode::Ask) where whoever calls on behalf of a model has
    /// to ask a person first, about the path as written and the one that it [leads to](Self::resolve).
    fn change_access<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, AccessMode> {
        let _ = path;
        Box::pin(async { AccessMode::Allow })
    }

    /// Where commands can be run on these files; none by default. [`WithShell`](crate::shell::WithShell) adds one.
    fn shell(&self) -> Option<&dyn Shell> {
        None
    }

    /// Whether commands might reach what is at a path or below it, past this backend. Yes, unless it is kept where no
    /// command sees it.
    fn shell_visible(&self, path: &VPath) -> bool {
        let _ = path;
        true
    }

    /// The state channels it needs; whoever uses the backend declares them.
    fn channels(&self) -> Vec<ChannelSpec> {
        Vec::new()
    }
}

impl fmt::Debug for dyn Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

/// What a backend can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Files can be written.
    pub write: bool,
    /// Files can be deleted.
    pub delete: bool,
    /// Directories exist by themselves. Otherwise one is there as long as a file is below it, and one that is missing is
    /// as good as an empty one.
    pub directories: bool,
}

impl Default for Capabilities {
    /// All of it.
    fn default() -> Self {
        Self { write: true, delete: true, directories: true }
    }
}

/// Marks one version of a file's content. Two equal versions mean that the file was not changed in between.
///
/// What is in it is the backend's own; it can be stored and compared, nothing else.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(Arc<str>);

impl Version {
    /// A version from a backend's own mark.
    pub fn new(mark: impl Into<Arc<str>>) -> Self {
        Self(mark.into())
    }

    /// The mark.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A version made from the content itself: its length and the first half of its SHA-256, the same wherever and
    /// whenever it is made, as versions are stored with threads.
    ///
    /// Versions of logs from before this are of another form and equal none of these: such a file counts as changed and
    /// is read again.
    pub fn from_content(content: &[u8]) -> Self {
        use std::fmt::Write;
        let mut mark = format!("{:x}-", content.len());
        for byte in Sha256::digest(content).iter().take(16) {
            let _ = write!(mark, "{byte:02x}");
        }
        Self(mark.into())
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({})", self.0)
    }
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Listed, but neither: a device, FIFO or socket, or a link that leads nowhere, in a circle or outside.
    Other,
}

impl Kind {
    /// Refuses what is not a file.
    pub(crate) fn require_file(self, path: &VPath) -> Result<(), FsError> {
        match self {
            Self::File => Ok(()),
            Self::Directory => Err(FsError::IsDirectory(path.clone())),
            Self::Other => Err(FsError::Special(path.clone())),
        }
    }
}

/// Facts about a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// Bytes; 0 for a directory.
    pub size: u64,
    /// The version of its content.
    pub version: Version,
    /// When it was last written, if known.
    pub modified: Option<Timestamp>,
}

impl Stat {
    /// A file.
    pub fn file(size: u64, version: Version) -> Self {
        Self { kind: Kind::File, size, version, modified: None }
    }

    /// A directory.
    pub fn directory() -> Self {
        Self { kind: Kind::Directory, size: 0, version: Version::new("directory"), modified: None }
    }

    /// What is at a path that is no file, in a store that knows files alone, from the paths of all of them: a directory
    /// if files are below.
    ///
    /// # Errors
    /// [`FsError::NotADirectory`] naming the file that is in the way, otherwise [`FsError::NotFound`].
    pub fn implied<'a>(path: &VPath, files: impl IntoIterator<Item = &'a VPath>) -> Result<Self, FsError> {
        if path.is_root() {
            return Ok(Self::directory());
        }
        for file in files {
            if file.starts_with(path) {
                return Ok(Self::directory());
            }
            if path.starts_with(file) {
                return Err(FsError::NotADirectory(file.clone()));
            }
        }
        Err(FsError::NotFound(path.clone()))
    }
}

/// Which bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Bytes to skip.
    pub offset: u64,
    /// Bytes to read at most; none means to the end.
    pub length: Option<u64>,
}

impl ByteRange {
    /// The whole file.
    pub const ALL: Self = Self { offset: 0, length: None };

    /// The first bytes.
    pub fn first(length: u64) -> Self {
        Self { offset: 0, length: Some(length) }
    }

    /// Its part of content that is at hand.
    pub fn slice(self, content: &Bytes) -> Bytes {
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX).min(content.len());
        let length = self.length.and_then(|l| usize::try_from(l).ok()).unwrap_or(usize::MAX);
        content.slice(start..start.saturating_add(length).min(content.len()))
    }
}

/// Bytes that were read, and facts about the file they are from.
#[derive(Clone, Debug)]
pub struct FileRead {
    /// The bytes of the range.
    pub bytes: Bytes,
    /// The file, of which the bytes may be a part.
    pub stat: Stat,
}

impl FileRead {
    /// A range of content that is at hand.
    ///
    /// # Errors
    /// When `stat` is not a file's.
    pub fn from_whole(path: &VPath, content: &Bytes, stat: Stat, range: ByteRange) -> Result<Self, FsError> {
        stat.kind.require_file(path)?;
        Ok(Self { bytes: range.slice(content), stat })
    }
}

/// One child of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub path: VPath,
    /// What it is; links are followed.
    pub kind: Kind,
    /// Bytes; 0 for what is not a file.
    pub size: u64,
    /// When it was last written, if known.
    pub modified: Option<Timestamp>,
    /// Whether it is a symbolic link. Searches and walks do not follow links.
    pub link: bool,
}

impl Entry {
    /// A file.
    pub fn file(path: VPath, size: u64) -> Self {
        Self { path, kind: Kind::File, size, modified: None, link: false }
    }

    /// A directory.
    pub fn directory(path: VPath) -> Self {
        Self { path, kind: Kind::Directory, size: 0, modified: None, link: false }
    }
}

/// The children of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The children, sorted by path, each once.
    pub entries: Vec<Entry>,
    /// Children left out since no path can name them: their names are not UTF-8 or hold a backslash.
    pub unnameable: usize,
}

impl Listing {
    /// A listing of entries in any order.
    pub fn from_entries(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut entries: Vec<Entry> = entries.into_iter().collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        entries.dedup_by(|a, b| a.path == b.path);
        Self { entries, unnameable: 0 }
    }

    /// The children of a directory in a store that knows files alone and keeps them in order of path. `first_from` gives
    /// the first file at or after a text, so what lies below a child is jumped over.
    pub(crate) fn jumping<'a, T>(
        directory: &VPath,
        first_from: impl Fn(&str) -> Option<(&'a VPath, T)>,
        entry: impl Fn(VPath, T) -> Entry,
    ) -> Self {
        let base = format!("{}/", directory.as_str().trim_end_matches('/'));
        let (mut entries, mut from) = (Vec::new(), base.clone());
        while let Some((file, facts)) = first_from(&from) {
            let Some(rest) = file.as_str().strip_prefix(&base) else { break };
            if let Some((name, _)) = rest.split_once('/') {
                let child = directory.child(name);
                // '0' follows '/', so this comes after everything below the child.
                from = format!("{child}0");
                entries.push(Entry::directory(child));
            } else {
                from = format!("{file}\0");
                entries.push(entry(file.clone(), facts));
            }
        }
        Self::from_entries(entries)
    }

    /// The children of a directory in a store that knows files alone, from its files in any order: what lies deeper
    /// shows as directories.
    ///
    /// ```
    /// use deepagents_fs::{Entry, Kind, Listing, VPath};
    /// let files = ["/a/b", "/a/c/d", "/e"].map(|path| VPath::parse(path).map(|path| Entry::file(path, 0)));
    /// let files = files.into_iter().collect::<Result<Vec<_>, _>>()?;
    /// let listing = Listing::implied(&VPath::parse("/a")?, files)?;
    /// assert_eq!(listing.entries.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [Kind::File, Kind::Directory]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such directory; see [`Stat::implied`].
    pub fn implied(directory: &VPath, files: impl IntoIterator<Item = Entry>) -> Result<Self, FsError> {
        let mut entries = Vec::new();
        for file in files {
            let Some(below) = file.path.strip_prefix(directory) else {
                if directory.starts_with(&file.path) {
                    return Err(FsError::NotADirectory(file.path));
                }
                continue;
            };
            let mut names = below.components();
            let Some(name) = names.next() else { return Err(FsError::NotADirectory(file.path)) };
            entries.push(if names.next().is_some() { Entry::directory(directory.child(name)) } else { file });
        }
        if entries.is_empty() && !directory.is_root() {
            return Err(FsError::NotFound(directory.clone()));
        }
        Ok(Self::from_entries(entries))
    }
}

/// Under which condition a file is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// Only if there is no file.
    Create,
    /// In any case.
    #[default]
    Overwrite,
    /// Only if the file is still this version.
    IfVersion(Version),
}

impl WriteMode {
    /// Whether a file may be written, given the version that is there.
    ///
    /// # Errors
    /// When the condition does not hold.
    pub fn check(&self, path: &VPath, there: Option<&Version>) -> Result<(), FsError> {
        match (self, there) {
            (Self::Create, Some(_)) => Err(FsError::AlreadyExists(path.clone())),
            (Self::IfVersion(expected), there) if Some(expected) != there => Err(FsError::Changed(path.clone())),
            _ => Ok(()),
        }
    }

    /// Whether a file may be written, given what [`stat`](Backend::stat) says of its path.
    ///
    /// # Errors
    /// When the condition does not hold, when something other than a file is there, and those of `there` but
    /// [`FsError::NotFound`].
    pub fn check_at(&self, path: &VPath, there: Result<Stat, FsError>) -> Result<(), FsError> {
        match there {
            Ok(stat) => {
                stat.kind.require_file(path)?;
                self.check(path, Some(&stat.version))
            }
            Err(FsError::NotFound(_)) => self.check(path, None),
            Err(error) => Err(error),
        }
    }
}

/// A write that was done.
#[derive(Clone, Debug)]
pub struct Written {
    /// What it changes in the state; for a store in the state, the write itself.
    pub update: Update,
    /// The version of the file now.
    pub version: Version,
}

/// A turn at changing a file, from [`Backend::lock`].
#[derive(Debug)]
pub struct PathGuard {
    _guard: tokio::sync::OwnedMutexGuard<()>,
}

impl From<tokio::sync::OwnedMutexGuard<()>> for PathGuard {
    fn from(guard: tokio::sync::OwnedMutexGuard<()>) -> Self {
        Self { _guard: guard }
    }
}
