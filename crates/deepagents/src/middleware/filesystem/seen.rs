//! Which version of which file the thread knows.

use std::collections::BTreeMap;

use deepagents_core::state::{Channel, ChannelError, Sharing};
use deepagents_core::tool::{ToolContext, ToolError};
use deepagents_fs::{Backend, FsError, VPath, Version};

use super::tools::failed;

/// The version of each file that the thread has last read or written. A sub-agent starts knowing none.
#[derive(Debug)]
pub struct SeenFiles;

impl Channel for SeenFiles {
    const NAME: &'static str = "seen_files";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    type Value = BTreeMap<VPath, Version>;
    type Update = Vec<(VPath, Version)>;

    fn reduce(value: &mut Self::Value, update: Self::Update) -> Result<(), ChannelError> {
        value.extend(update);
        Ok(())
    }
}

/// The version of a file that the thread knows.
pub(super) fn version<'a>(cx: &'a ToolContext, path: &VPath) -> Option<&'a Version> {
    cx.state().get::<SeenFiles>().and_then(|seen| seen.get(path))
}

/// The version of a file that the thread wrote and rules keep from being read; an error where another wrote it, as whether a
/// change of a part of it succeeds says what is there. Nothing where it may be read.
pub(super) async fn unreadable(
    cx: &ToolContext,
    backend: &dyn Backend,
    path: &VPath,
) -> Result<Option<Version>, ToolError> {
    match backend.stat(cx.state(), path).await {
        Err(error @ FsError::Denied { .. }) => version(cx, path).cloned().map(Some).ok_or_else(|| failed(error)),
        _ => Ok(None),
    }
}

/// Refuses a change to a file that the thread does not know as it is.
pub(super) fn check(cx: &ToolContext, path: &VPath, now: &Version) -> Result<(), ToolError> {
    let why = match version(cx, path) {
        Some(version) if version == now => return Ok(()),
        Some(_) => "has changed since you last read it. Read it again",
        None => "exists and you have not read it. Read it first",
    };
    Err(failed(format!("{} {why}, then make the change.", path.quoted())))
}
