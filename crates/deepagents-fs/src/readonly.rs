//! A backend that is not changed.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{ChannelSpec, State, Update};
use futures_core::future::BoxFuture;

use crate::lines::{LineRange, LineWindow};
use crate::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery};
use crate::{Backend, ByteRange, Capabilities, FileRead, FsError, Listing, Stat, VPath, WriteMode, Written};

/// A backend whose files can be read and searched but not changed. It has no shell.
///
/// ```
/// use std::sync::Arc;
/// use deepagents_fs::{Backend, ReadOnly, StateBackend};
/// assert!(!ReadOnly::new(Arc::new(StateBackend::new())).capabilities().write);
/// ```
#[derive(Clone)]
pub struct ReadOnly {
    inner: Arc<dyn Backend>,
}

impl ReadOnly {
    /// Keeps a backend from being changed.
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner }
    }
}

impl fmt::Debug for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadOnly")
    }
}

impl Backend for ReadOnly {
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Stat, FsError>> {
        self.inner.stat(state, path)
    }

    fn read<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<FileRead, FsError>> {
        self.inner.read(state, path, range)
    }

    fn read_lines<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        range: LineRange,
    ) -> BoxFuture<'a, Result<LineWindow, FsError>> {
        self.inner.read_lines(state, path, range)
    }

    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Listing, FsError>> {
        self.inner.list(state, path)
    }

    fn write<'a>(
        &'a self,
        _: &'a State,
        path: &'a VPath,
        _: Bytes,
        _: WriteMode,
    ) -> BoxFuture<'a, Result<Written, FsError>> {
        Box::pin(async move { Err(FsError::ReadOnly { path: path.clone() }) })
    }

    fn delete<'a>(&'a self, _: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Update, FsError>> {
        Box::pin(async move { Err(FsError::ReadOnly { path: path.clone() }) })
    }

    fn glob<'a>(&'a self, state: &'a State, query: &'a GlobQuery) -> BoxFuture<'a, Result<GlobOutcome, FsError>> {
        self.inner.glob(state, query)
    }

    fn grep<'a>(&'a self, state: &'a State, query: &'a GrepQuery) -> BoxFuture<'a, Result<GrepOutcome, FsError>> {
        self.inner.grep(state, query)
    }

    fn resolve<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<VPath, FsError>> {
        self.inner.resolve(state, path)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::read_only()
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        self.inner.channels()
    }
}
