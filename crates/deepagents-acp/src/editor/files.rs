//! Files as the person sees them, including unsaved changes.

mod disk;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use deepagents::core::state::{ChannelSpec, State, Update};
use deepagents::fs::lines::{LineRange, LineWindow, window};
use deepagents::fs::permissions::AccessMode;
use deepagents::fs::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery};
use deepagents::fs::shell::Shell;
use deepagents::fs::{
    AccessGuard, Backend, ByteRange, Capabilities, FileRead, FsError, FsFuture, HostDirectory, Kind, Listing,
    PathGuard, Stat, VPath, Version, WriteMode, Written,
};
use futures_util::future::BoxFuture;

use self::disk::{HEAD_BYTES, MAX_EDITOR_READ_BYTES, has_text_version, is_text};
use super::{CurrentCall, Editor, EditorError};

/// A directory whose text files tool calls read and write through the editor, as far as the editor supports it.
///
/// The editor opens files by path, so it is asked only while no command can change where a path leads, and then with a
/// path that has no links. While a command runs, tool calls use the files on disk.
///
/// Listings, searches, deletions and accesses outside tool calls always use the files on disk. Their protection applies
/// to writes through the editor too. If the editor both reads and writes files, the version of a text file is derived
/// from its text, wherever that was read.
pub(crate) struct EditorFiles {
    inner: Arc<dyn Backend>,
    editor: Editor,
    root: PathBuf,
    /// `None` if the root could not be opened; the editor is not asked then.
    directory: Option<HostDirectory>,
}

impl EditorFiles {
    pub(crate) fn new(
        inner: Arc<dyn Backend>,
        editor: Editor,
        root: PathBuf,
        directory: Option<HostDirectory>,
    ) -> Self {
        Self { inner, editor, root, directory }
    }

    /// Whether the editor both reads and writes files.
    fn reads_and_writes(&self) -> bool {
        self.editor.reads_files() && self.editor.writes_files()
    }

    /// Keeps commands from running while the editor accesses a file. Returns `None` if one runs already.
    async fn access(&self) -> Option<AccessGuard> {
        self.directory.as_ref()?.access().await
    }

    /// Returns where a path leads on disk. Without links as long as the guard exists.
    async fn place(&self, state: &State, path: &VPath, _: &AccessGuard) -> Result<(VPath, PathBuf), FsError> {
        let real = self.inner.resolve(state, path).await?;
        let on_disk = on_disk(&self.root, &real);
        Ok((real, on_disk))
    }

    /// Returns the text of a file that a tool call reads, if the editor decides what that is. `None` means the file on
    /// disk.
    async fn text(&self, state: &State, path: &VPath) -> Result<Option<Bytes>, FsError> {
        if !self.editor.reads_files() || !CurrentCall::is_there() {
            return Ok(None);
        }
        let access = self.access().await;
        self.text_under(access.as_ref(), state, path).await
    }

    /// Returns the text of a file from the editor, or from disk if there is no access to the editor.
    async fn text_under(
        &self,
        access: Option<&AccessGuard>,
        state: &State,
        path: &VPath,
    ) -> Result<Option<Bytes>, FsError> {
        match self.inner.stat(state, path).await {
            Ok(stat) if stat.kind == Kind::File && stat.size <= MAX_EDITOR_READ_BYTES => {
                // Binary files are not requested: some editors would open them.
                let head = self.inner.read(state, path, ByteRange::first(HEAD_BYTES as u64)).await?;
                if !is_text(&head.bytes) {
                    return Ok(None);
                }
            }
            Ok(_) => return Ok(None),
            // A buffer that was never saved.
            Err(FsError::NotFound(_)) if access.is_some() => {}
            Err(error) => return Err(error),
        }
        let place = match access {
            Some(access) => self.place(state, path, access).await.ok(),
            None => None,
        };
        // Where a path leads to a name that has no path, such as one that is not UTF-8, the file is read on disk.
        let Some((_, place)) = place else { return self.text_on_disk(state, path).await };
        match self.editor.read_text(&place).await {
            Ok(text) => Ok(Some(text.into())),
            Err(EditorError::NotFound | EditorError::Refused(_)) => Ok(None),
            Err(error @ (EditorError::Silent | EditorError::Odd(_))) => Err(unreachable(path, &error)),
        }
    }

    async fn look(&self, state: &State, path: &VPath) -> Result<Stat, FsError> {
        if self.reads_and_writes()
            && let Some(text) = self.text(state, path).await?
        {
            return Ok(stat_of(&text));
        }
        self.inner.stat(state, path).await
    }

    async fn read_whole(&self, state: &State, path: &VPath) -> Result<Option<FileRead>, FsError> {
        let Some(bytes) = self.text(state, path).await? else { return Ok(None) };
        let stat = if self.reads_and_writes() { stat_of(&bytes) } else { self.inner.stat(state, path).await? };
        Ok(Some(FileRead { bytes, stat }))
    }

    /// Returns an error if the files on disk are protected against this write, by a path as written or by where it
    /// leads.
    async fn guard(&self, path: &VPath, real: &VPath) -> Result<(), FsError> {
        for path in [path, real] {
            if self.inner.change_access(path).await == AccessMode::Deny {
                return Err(FsError::Protected(path.clone()));
            }
        }
        Ok(())
    }

    /// Writes a file through the editor, or on disk while a command runs.
    async fn save(&self, state: &State, path: &VPath, data: Bytes, mode: WriteMode) -> Result<Written, FsError> {
        let Ok(text) = std::str::from_utf8(&data) else { return self.inner.write(state, path, data, mode).await };
        let Some(access) = self.access().await else { return self.save_on_disk(state, path, &data, mode).await };
        let (real, place) = self.place(state, path, &access).await?;
        self.guard(path, &real).await?;
        let there = if self.reads_and_writes() { self.text_under(Some(&access), state, path).await? } else { None };
        let there = match there {
            Some(text) => Ok(stat_of(&text)),
            None => self.inner.stat(state, path).await,
        };
        mode.check_at(path, there)?;
        let written = self.editor.write_text(&place, text, access).await;
        written.map_err(|error| unreachable(path, &error))?;
        let version = if self.reads_and_writes() && has_text_version(&data) {
            Version::from_content(&data)
        } else {
            // The editor may delay saving.
            let saved = self.inner.stat(state, path).await;
            saved.map_or_else(|_| Version::from_content(&data), |stat| stat.version)
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
            if self.editor.writes_files() && CurrentCall::is_there() {
                return self.save(state, path, data, mode).await;
            }
            self.inner.write(state, path, data, mode).await
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
        let directory = self.directory.clone();
        Some(Arc::new(Self { inner, editor: self.editor.clone(), root: self.root.clone(), directory }))
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
