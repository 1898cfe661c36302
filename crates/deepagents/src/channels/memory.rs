//! The channel of memory file contents.

use std::collections::BTreeMap;

use deepagents_core::state::{Channel, ChannelError, Concurrent, Sharing};
use deepagents_fs::{VPath, Version};
use serde::{Deserialize, Serialize};

/// The memory files as last read; a missing file has no entry. Not shared with sub-agents.
///
/// ```
/// use deepagents::State;
/// use deepagents::channels::MemoryContents;
/// fn unread(state: &State) -> Vec<String> {
///     let files = state.get::<MemoryContents>().into_iter().flatten();
///     files.filter(|(_, file)| file.problem.is_some()).map(|(path, _)| path.to_string()).collect()
/// }
/// ```
#[derive(Debug)]
pub struct MemoryContents;

impl Channel for MemoryContents {
    const NAME: &'static str = "memory_contents";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    const CONCURRENT: Concurrent = Concurrent::Refuse;
    type Value = BTreeMap<VPath, MemoryFile>;
    /// The changed files; `None` for one that was removed.
    type Update = BTreeMap<VPath, Option<MemoryFile>>;

    fn reduce(value: &mut Self::Value, update: Self::Update) -> Result<(), ChannelError> {
        for (path, file) in update {
            match file {
                Some(file) => value.insert(path, file),
                None => value.remove(&path),
            };
        }
        Ok(())
    }
}

/// A memory file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemoryFile {
    /// The version of the file, or `None` if it could not be determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The text without HTML comments and trailing whitespace.
    pub text: String,
    /// Whether the text is truncated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Why the file could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
