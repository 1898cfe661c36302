//! Approved files with the content that was approved.

use std::collections::BTreeMap;

use bytes::Bytes;
use deepagents_core::state::{State, Update};
use deepagents_fs::{
    Backend, ByteRange, Capabilities, Entry, FileRead, FsError, FsFuture, Listing, Stat, VPath, Version, WriteMode,
    Written,
};

use super::FoundItem;

/// A read-only backend of approved files with the content that they had when they were approved. Later changes on disk
/// do not affect it.
///
/// ```
/// use deepagents::trust::TrustedFiles;
/// use deepagents::DeepAgent;
/// use deepagents::core::model::NoModel;
/// let none = TrustedFiles::default();
/// DeepAgent::builder().model(NoModel).memory(["/AGENTS.md"]).definitions_from(none).build()?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TrustedFiles {
    files: BTreeMap<VPath, Bytes>,
}

impl<'a> FromIterator<&'a FoundItem> for TrustedFiles {
    fn from_iter<T: IntoIterator<Item = &'a FoundItem>>(items: T) -> Self {
        let files = items.into_iter().flat_map(FoundItem::files);
        Self { files: files.map(|(path, bytes)| (path.clone(), bytes.clone())).collect() }
    }
}

impl TrustedFiles {
    /// Returns `true` if there is a file at this path.
    pub fn contains(&self, path: &VPath) -> bool {
        self.files.contains_key(path)
    }

    /// Returns `true` if there is anything at or below this path.
    pub fn has_below(&self, directory: &VPath) -> bool {
        self.files.keys().any(|path| path.starts_with(directory))
    }

    fn stat_of(&self, path: &VPath) -> Result<Stat, FsError> {
        match self.files.get(path) {
            Some(bytes) => Ok(Stat::file(bytes.len() as u64, Version::from_content(bytes))),
            None => Stat::implied(path, self.files.keys()),
        }
    }
}

impl Backend for TrustedFiles {
    fn stat<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
        Box::pin(async move { self.stat_of(path) })
    }

    fn read<'a>(&'a self, _: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        Box::pin(async move {
            let content = self.files.get(path).cloned().unwrap_or_default();
            FileRead::from_whole(path, &content, self.stat_of(path)?, range)
        })
    }

    fn list<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
        let files = self.files.iter().map(|(path, bytes)| Entry::file(path.clone(), bytes.len() as u64));
        Box::pin(async move { Listing::implied(path, files) })
    }

    fn write<'a>(&'a self, _: &'a State, path: &'a VPath, _: Bytes, _: WriteMode) -> FsFuture<'a, Written> {
        Box::pin(async move { Err(FsError::ReadOnly(path.clone())) })
    }

    fn delete<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        Box::pin(async move { Err(FsError::ReadOnly(path.clone())) })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { write: false, delete: false, directories: false }
    }

    fn shell_visible(&self, _: &VPath) -> bool {
        false
    }
}
