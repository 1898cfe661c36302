//! A backend with a shell.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{ChannelSpec, State, Update};
use futures_core::future::BoxFuture;

use super::Shell;
use crate::lines::{LineRange, LineWindow};
use crate::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery};
use crate::{Backend, ByteRange, Capabilities, FileRead, FsError, Listing, PathGuard, Stat, VPath, WriteMode, Written};

/// A backend that can also run commands. Files are the inner backend's; the shell should work on the same directory.
///
/// ```
/// use deepagents_fs::shell::{Confinement, LocalShell, WithShell};
/// use deepagents_fs::{Backend, LocalBackend};
/// # let dir = tempfile::tempdir()?;
/// let files = LocalBackend::open(dir.path())?;
/// let shell = LocalShell::open(files.host_path(), Confinement::sandboxed())?;
/// let workspace = WithShell::new(files, shell);
/// assert!(workspace.shell().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct WithShell<B> {
    backend: B,
    shell: Arc<dyn Shell>,
}

impl<B: Backend> WithShell<B> {
    /// Adds a shell to a backend.
    pub fn new(backend: B, shell: impl Shell) -> Self {
        Self { backend, shell: Arc::new(shell) }
    }

    /// The backend without the shell.
    pub fn backend(&self) -> &B {
        &self.backend
    }
}

impl<B: fmt::Debug> fmt::Debug for WithShell<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithShell").field("backend", &self.backend).finish_non_exhaustive()
    }
}

impl<B: Backend> Backend for WithShell<B> {
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Stat, FsError>> {
        self.backend.stat(state, path)
    }

    fn read<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<FileRead, FsError>> {
        self.backend.read(state, path, range)
    }

    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Listing, FsError>> {
        self.backend.list(state, path)
    }

    fn write<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        data: Bytes,
        mode: WriteMode,
    ) -> BoxFuture<'a, Result<Written, FsError>> {
        self.backend.write(state, path, data, mode)
    }

    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Update, FsError>> {
        self.backend.delete(state, path)
    }

    fn read_lines<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        range: LineRange,
    ) -> BoxFuture<'a, Result<LineWindow, FsError>> {
        self.backend.read_lines(state, path, range)
    }

    fn glob<'a>(&'a self, state: &'a State, query: &'a GlobQuery) -> BoxFuture<'a, Result<GlobOutcome, FsError>> {
        self.backend.glob(state, query)
    }

    fn grep<'a>(&'a self, state: &'a State, query: &'a GrepQuery) -> BoxFuture<'a, Result<GrepOutcome, FsError>> {
        self.backend.grep(state, query)
    }

    fn resolve<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<VPath, FsError>> {
        self.backend.resolve(state, path)
    }

    fn lock<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, Option<PathGuard>> {
        self.backend.lock(path)
    }

    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        self.backend.channels()
    }

    fn shell(&self) -> Option<&dyn Shell> {
        Some(&*self.shell)
    }
}
