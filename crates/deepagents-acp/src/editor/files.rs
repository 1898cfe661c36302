//! Files as the person sees them, including unsaved changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use deepagents::core::state::{ChannelSpec, State, Update};
use deepagents::fs::lines::{LineRange, LineWindow, window};
use deepagents::fs::permissions::AccessMode;
use deepagents::fs::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery};
use deepagents::fs::shell::Shell;
use deepagents::fs::{
    Backend, ByteRange, Capabilities, FileRead, FsError, FsFuture, Kind, Listing, PathGuard, Stat, VPath, Version,
    WriteMode, Written,
};
use futures_util::future::BoxFuture;

use super::{CurrentCall, Editor, EditorError};

/// Larger files are read from disk, because an editor returns files as a whole.
const MAX_EDITOR_READ_BYTES: u64 = 4 << 20;

/// A directory whose text files tool calls read and write through the editor, as far as the editor supports it.
///
/// Listings, searches, deletions and accesses outside tool calls use the files on disk. Their protection applies to
/// writes through the editor too. If the editor both reads and writes files, the version of a file is derived from its
/// text.
pub(crate) struct EditorFiles {
    inner: Arc<dyn Backend>,
    editor: Editor,
    root: PathBuf,
}

impl EditorFiles {
    pub(crate) fn new(inner: Arc<dyn Backend>, editor: Editor, root: PathBuf) -> Self {
        Self { inner, editor, root }
    }

    /// Returns the path on disk.
    fn on_disk(&self, path: &VPath) -> PathBuf {
        on_disk(&self.root, path)
    }

    /// Whether the editor both reads and writes files.
    fn reads_and_writes(&self) -> bool {
        self.editor.reads_files() && self.editor.writes_files()
    }

    /// Returns the editor's text of a file, if the editor should be asked.
    async fn buffer(&self, state: &State, path: &VPath) -> Result<Option<Bytes>, FsError> {
        if !self.editor.reads_files() || !CurrentCall::is_there() {
            return Ok(None);
        }
        match self.inner.stat(state, path).await {
            Ok(stat) if stat.kind == Kind::File && stat.size <= MAX_EDITOR_READ_BYTES => {
                // Binary files are not requested: some editors would open them.
                let head = self.inner.read(state, path, ByteRange::first(8 << 10)).await?;
                if head.bytes.contains(&0) {
                    return Ok(None);
                }
            }
            Ok(_) => return Ok(None),
            // A buffer that was never saved.
            Err(FsError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        match self.editor.read_text(&self.on_disk(path)).await {
            Ok(text) => Ok(Some(text.into())),
            Err(EditorError::NotFound | EditorError::Refused(_)) => Ok(None),
            Err(error @ (EditorError::Silent | EditorError::Odd(_))) => Err(unreachable(path, &error)),
        }
    }

    async fn look(&self, state: &State, path: &VPath) -> Result<Stat, FsError> {
        if self.reads_and_writes()
            && let Some(text) = self.buffer(state, path).await?
        {
            return Ok(stat_of(&text));
        }
        self.inner.stat(state, path).await
    }

    async fn read_whole(&self, state: &State, path: &VPath) -> Result<Option<FileRead>, FsError> {
        let Some(bytes) = self.buffer(state, path).await? else { return Ok(None) };
        let stat = if self.reads_and_writes() { stat_of(&bytes) } else { self.inner.stat(state, path).await? };
        Ok(Some(FileRead { bytes, stat }))
    }

    /// Returns an error if the files on disk are protected against this write.
    async fn guard(&self, state: &State, path: &VPath) -> Result<(), FsError> {
        let real = self.inner.resolve(state, path).await?;
        for path in [path, &real] {
            if self.inner.change_access(path).await == AccessMode::Deny {
                return Err(FsError::Protected(path.clone()));
            }
        }
        Ok(())
    }

    async fn save(&self, state: &State, path: &VPath, text: &str, mode: &WriteMode) -> Result<Written, FsError> {
        self.guard(state, path).await?;
        mode.check_at(path, self.look(state, path).await)?;
        let written = self.editor.write_text(&self.on_disk(path), text).await;
        written.map_err(|error| unreachable(path, &error))?;
        let version = if self.reads_and_writes() {
            Version::from_content(text.as_bytes())
        } else {
            // The editor may delay saving.
            let saved = self.inner.stat(state, path).await;
            saved.map_or_else(|_| Version::from_content(text.as_bytes()), |stat| stat.version)
        };
        Ok(Written { update: Update::none(), version })
    }
}

/// Returns the path on disk of a workspace path.
pub(crate) fn on_disk(root: &Path, path: &VPath) -> PathBuf {
    root.join(path.as_str().trim_start_matches('/'))
}

fn stat_of(text: &Bytes) -> Stat {
    Stat::file(text.len() as u64, Version::from_content(text))
}

fn unreachable(path: &VPath, error: &EditorError) -> FsError {
    FsError::io(path, std::io::ErrorKind::Other, error.to_string())
}

impl Backend for EditorFiles {
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
        Box::pin(self.look(state, path))
    }

    fn read<'a>(&'a self, state: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        Box::pin(async move {
            match self.read_whole(state, path).await? {
                Some(file) => FileRead::from_whole(path, &file.bytes, file.stat, range),
                None => self.inner.read(state, path, range).await,
            }
        })
    }

    fn read_to_change<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, FileRead> {
        Box::pin(async move {
            if self.reads_and_writes()
                && let Some(file) = self.read_whole(state, path).await?
            {
                return Ok(file);
            }
            self.inner.read_to_change(state, path).await
        })
    }

    fn read_lines<'a>(&'a self, state: &'a State, path: &'a VPath, range: LineRange) -> FsFuture<'a, LineWindow> {
        Box::pin(async move {
            match self.read_whole(state, path).await? {
                Some(file) => Ok(window(&file.bytes, range, file.stat.version)),
                None => self.inner.read_lines(state, path, range).await,
            }
        })
    }

    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
        self.inner.list(state, path)
    }

    fn write<'a>(&'a self, state: &'a State, path: &'a VPath, data: Bytes, mode: WriteMode) -> FsFuture<'a, Written> {
        Box::pin(async move {
            match std::str::from_utf8(&data) {
                Ok(text) if self.editor.writes_files() && CurrentCall::is_there() => {
                    self.save(state, path, text, &mode).await
                }
                _ => self.inner.write(state, path, data, mode).await,
            }
        })
    }

    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        self.inner.delete(state, path)
    }

    fn glob<'a>(&'a self, state: &'a State, query: &'a GlobQuery) -> FsFuture<'a, GlobOutcome> {
        self.inner.glob(state, query)
    }

    fn grep<'a>(&'a self, state: &'a State, query: &'a GrepQuery) -> FsFuture<'a, GrepOutcome> {
        self.inner.grep(state, query)
    }

    fn resolve<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, VPath> {
        self.inner.resolve(state, path)
    }

    fn lock<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, Option<PathGuard>> {
        self.inner.lock(path)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn pinned(&self, path: &VPath, place: &VPath) -> Option<Arc<dyn Backend>> {
        let inner = self.inner.pinned(path, place)?;
        Some(Arc::new(Self { inner, editor: self.editor.clone(), root: self.root.clone() }))
    }

    fn change_access<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, AccessMode> {
        self.inner.change_access(path)
    }

    fn shell(&self) -> Option<&dyn Shell> {
        self.inner.shell()
    }

    fn shell_visible(&self, path: &VPath) -> bool {
        self.inner.shell_visible(path)
    }

    fn shell_unreachable(&self) -> Vec<VPath> {
        self.inner.shell_unreachable()
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        self.inner.channels()
    }
}
