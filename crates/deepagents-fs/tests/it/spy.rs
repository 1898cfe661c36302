//! A backend that records its calls.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use deepagents_core::state::{ChannelSpec, State, Update};
use deepagents_fs::{Backend, ByteRange, FileRead, FsError, Listing, Stat, VPath, WriteMode, Written};
use futures_core::future::BoxFuture;
use tokio::sync::Barrier;

/// Records listings and reads, and may wait for others before it lists. Has none of the optimised methods.
pub(crate) struct Spy {
    pub(crate) inner: Arc<dyn Backend>,
    pub(crate) seen: Mutex<Vec<String>>,
    pub(crate) meet: Option<Arc<Barrier>>,
}

impl Spy {
    pub(crate) fn on(inner: impl Backend) -> Self {
        Self { inner: Arc::new(inner), seen: Mutex::default(), meet: None }
    }

    fn note(&self, what: &str, path: &VPath) {
        self.seen.lock().unwrap().push(format!("{what} {path}"));
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl Backend for Spy {
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Stat, FsError>> {
        self.inner.stat(state, path)
    }
    fn read<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<FileRead, FsError>> {
        self.note("read", path);
        self.inner.read(state, path, range)
    }
    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Listing, FsError>> {
        Box::pin(async move {
            self.note("list", path);
            if let Some(meet) = &self.meet {
                meet.wait().await;
            }
            self.inner.list(state, path).await
        })
    }
    fn write<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        data: Bytes,
        mode: WriteMode,
    ) -> BoxFuture<'a, Result<Written, FsError>> {
        self.inner.write(state, path, data, mode)
    }
    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Update, FsError>> {
        self.inner.delete(state, path)
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        self.inner.channels()
    }
}
