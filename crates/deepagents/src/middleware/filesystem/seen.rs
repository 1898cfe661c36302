//! The file versions that the thread knows.

use std::collections::BTreeMap;

use deepagents_core::state::{Channel, ChannelError, Sharing};
use deepagents_core::tool::{ToolContext, ToolError};
use deepagents_fs::{Backend, FsError, VPath, Version};

use super::tools::failed;

/// The version of each file that the thread last read or wrote. A sub-agent starts with none.
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

/// Returns the version of a file that the thread knows.
pub(super) fn version<'a>(cx: &'a ToolContext, path: &VPath) -> Option<&'a Version> {
    cx.state().get::<SeenFiles>().and_then(|seen| seen.get(path))
}

/// Returns the version of a file that the thread wrote but rules prevent it from reading, or `None` if it may be read.
/// Fails if somebody else wrote the file: whether a partial edit succeeds would reveal its content.
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

/// Rejects a change to a file whose current version the thread does not know.
pub(super) fn check(cx: &ToolContext, path: &VPath, now: &Version) -> Result<(), ToolError> {
    let why = match version(cx, path) {
        Some(version) if version == now => return Ok(()),
        Some(_) => "has changed since you last read it. Read it again",
        None => "exists and you have not read it. Read it first",
    };
    Err(failed(format!("{} {why}, then make the change.", path.quoted())))
}
