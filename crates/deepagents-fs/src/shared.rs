//! A shared backend is a backend.

use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{ChannelSpec, State, Update};
use futures_core::future::BoxFuture;

use crate::lines::{LineRange, LineWindow};
use crate::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery};
use crate::shell::Shell;
use crate::{Backend, ByteRange, Capabilities, FileRead, FsError, Listing, PathGuard, Stat, VPath, WriteMode, Written};

impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Stat, FsError>> {
        (**self).stat(state, path)
    }

    fn read<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<FileRead, FsError>> {
        (**self).read(state, path, range)
    }

    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Listing, FsError>> {
        (**self).list(state, path)
    }

    fn write<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        data: Bytes,
        mode: WriteMode,
    ) -> BoxFuture<'a, Result<Written, FsError>> {
        (**self).write(state, path, data, mode)
    }

    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Update, FsError>> {
        (**self).delete(state, path)
    }

    fn read_lines<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        range: LineRange,
    ) -> BoxFuture<'a, Result<LineWindow, FsError>> {
        (**self).read_lines(state, path, range)
    }

    fn glob<'a>(&'a self, state: &'a State, query: &'a GlobQuery) -> BoxFuture<'a, Result<GlobOutcome, FsError>> {
        (**self).glob(state, query)
    }

    fn grep<'a>(&'a self, state: &'a State, query: &'a GrepQuery) -> BoxFuture<'a, Result<GrepOutcome, FsError>> {
        (**self).grep(state, query)
    }

    fn resolve<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<VPath, FsError>> {
        (**self).resolve(state, path)
    }

    fn lock<'a>(&'a self, path: &'a VPath) -> BoxFuture<'a, Option<PathGuard>> {
        (**self).lock(path)
    }

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        (**self).channels()
    }

    fn shell(&self) -> Option<&dyn Shell> {
        (**self).shell()
    }
}
