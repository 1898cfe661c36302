//! What both directions of taking changes out of an overlay need of its layers.

use std::io::ErrorKind;

use bytes::Bytes;
use deepagents_core::state::{State, Update};

use super::listed;
use crate::{Backend, Entry, FsError, Kind, VPath, Version, WriteMode};

/// What is at a path in a layer. Only files have a version: that of a directory changes with what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) kind: Kind,
    pub(super) version: Option<Version>,
}

impl Found {
    pub(super) fn is_file(&self) -> bool {
        self.kind == Kind::File
    }
}

/// Returns what is at a path in a layer, following links.
pub(super) async fn found(layer: &dyn Backend, state: &State, path: &VPath) -> Result<Option<Found>, FsError> {
    match layer.stat(state, path).await {
        Ok(stat) => {
            let version = (stat.kind == Kind::File).then_some(stat.version);
            Ok(Some(Found { kind: stat.kind, version }))
        }
        Err(FsError::NotADirectory(_)) => Ok(None),
        Err(FsError::NotFound(_)) => {
            let entry = if is_direct(layer, state, path).await { None } else { entry(layer, state, path).await? };
            Ok(entry.map(|entry| Found { kind: entry.kind, version: None }))
        }
        Err(FsError::Outside(_) | FsError::LinkLoop(_) | FsError::Special(_)) => {
            Ok(Some(Found { kind: Kind::Other, version: None }))
        }
        Err(error) => Err(error),
    }
}

/// What has a name in a layer, without following a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Nothing,
    /// A file, or a link to anything.
    Leaf,
    Directory,
}

pub(super) async fn named(layer: &dyn Backend, state: &State, path: &VPath) -> Result<Named, FsError> {
    match layer.stat(state, path).await {
        Ok(stat) if stat.kind == Kind::File => return Ok(Named::Leaf),
        Ok(stat) if stat.kind == Kind::Directory && is_direct(layer, state, path).await => return Ok(Named::Directory),
        Err(FsError::NotADirectory(_)) => return Ok(Named::Nothing),
        Err(FsError::NotFound(_)) if is_direct(layer, state, path).await => return Ok(Named::Nothing),
        _ => {}
    }
    Ok(match entry(layer, state, path).await? {
        None => Named::Nothing,
        Some(entry) if entry.kind == Kind::Directory && !entry.link => Named::Directory,
        Some(_) => Named::Leaf,
    })
}

/// Returns whether a path is a link itself.
pub(super) async fn is_link(layer: &dyn Backend, state: &State, path: &VPath) -> Result<bool, FsError> {
    Ok(!is_direct(layer, state, path).await && entry(layer, state, path).await?.is_some_and(|entry| entry.link))
}

/// Returns whether a path certainly has no links, which is cheaper to find out than what each name is.
async fn is_direct(layer: &dyn Backend, state: &State, path: &VPath) -> bool {
    layer.resolve(state, path).await.is_ok_and(|real| real == *path)
}

/// Returns a layer's entry for a path, which is about a link itself if it is one.
async fn entry(layer: &dyn Backend, state: &State, path: &VPath) -> Result<Option<Entry>, FsError> {
    let Some(parent) = path.parent() else { return Ok(None) };
    match listed(layer, state, &parent).await {
        Ok(listing) => Ok(listing.entries.into_iter().find(|entry| entry.path == *path)),
        // The directory is behind a link that leads nowhere.
        Err(FsError::Outside(_) | FsError::LinkLoop(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether a layer has a directory without any file below it. A file that no path can name counts as one.
pub(super) async fn is_empty(layer: &dyn Backend, state: &State, directory: &VPath) -> Result<bool, FsError> {
    let mut directories = vec![directory.clone()];
    while let Some(directory) = directories.pop() {
        let listing = match layer.list(state, &directory).await {
            Err(FsError::NotFound(_) | FsError::NotADirectory(_)) => return Ok(false),
            listing => listing?,
        };
        for entry in listing.entries {
            if entry.kind != Kind::Directory || entry.link {
                return Ok(false);
            }
            directories.push(entry.path);
        }
        if listing.unnameable > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A state to which each change is applied at once, as later ones build on it.
pub(super) struct Working {
    pub(super) state: State,
    pub(super) update: Update,
}

impl Working {
    pub(super) fn new(state: &State) -> Self {
        Self { state: state.clone(), update: Update::none() }
    }

    /// Writes a file and returns its new version.
    pub(super) async fn write(
        &mut self,
        layer: &dyn Backend,
        path: &VPath,
        content: Bytes,
        mode: WriteMode,
    ) -> Result<Version, FsError> {
        let written = layer.write(&self.state, path, content, mode).await?;
        self.take(path, written.update)?;
        Ok(written.version)
    }

    pub(super) async fn delete(&mut self, layer: &dyn Backend, path: &VPath) -> Result<(), FsError> {
        let update = layer.delete(&self.state, path).await?;
        self.take(path, update)
    }

    fn take(&mut self, path: &VPath, update: Update) -> Result<(), FsError> {
        self.state.apply(&update).map_err(|error| FsError::io(path, ErrorKind::Other, error.to_string()))?;
        self.update = std::mem::take(&mut self.update).and(update);
        Ok(())
    }
}
