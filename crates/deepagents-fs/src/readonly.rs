//! A backend that is not changed.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{State, Update};
use futures_core::future::BoxFuture;

use crate::forward::forward;
use crate::{Backend, Capabilities, FsError, VPath, WriteMode, Written};

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
    forward!([.inner]; stat, read, read_lines, list, glob, grep, resolve, commands_reach, channels);

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

    fn capabilities(&self) -> Capabilities {
        let directories = self.inner.capabilities().directories;
        Capabilities { directories, ..Capabilities::read_only() }
    }
}
