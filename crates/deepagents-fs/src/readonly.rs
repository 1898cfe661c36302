//! A read-only wrapper for backends.

use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{State, Update};

use crate::forward::forward;
use crate::{Backend, Capabilities, FsError, FsFuture, VPath, WriteMode, Written};

/// Wraps a backend so that its files can be read and searched but not changed. It has no shell.
///
/// ```
/// use deepagents_fs::{Backend, ReadOnly, StateBackend};
/// assert!(!ReadOnly::new(StateBackend::new()).capabilities().write);
/// ```
#[derive(Clone, Debug)]
pub struct ReadOnly {
    inner: Arc<dyn Backend>,
}

impl ReadOnly {
    /// Wraps a backend.
    pub fn new(inner: impl Backend) -> Self {
        Self { inner: Arc::new(inner) }
    }
}

impl Backend for ReadOnly {
    forward!([.inner]; stat, read, read_lines, list, glob, grep, resolve, shell_visible, shell_unreachable, channels);

    fn write<'a>(&'a self, _: &'a State, path: &'a VPath, _: Bytes, _: WriteMode) -> FsFuture<'a, Written> {
        Box::pin(async move { Err(FsError::ReadOnly(path.clone())) })
    }

    fn delete<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        Box::pin(async move { Err(FsError::ReadOnly(path.clone())) })
    }

    fn pinned(&self, path: &VPath, place: &VPath) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(Self { inner: self.inner.pinned(path, place)? }))
    }

    fn capabilities(&self) -> Capabilities {
        let directories = self.inner.capabilities().directories;
        Capabilities { write: false, delete: false, directories }
    }
}
