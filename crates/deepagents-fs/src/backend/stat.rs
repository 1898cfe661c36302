//! What is at a path, and which version of it.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{FsError, VPath};

/// Marks one version of a file's content. Two equal versions mean that the file was not changed in between.
///
/// What is in it is the backend's own; it can be stored and compared, nothing else.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(Arc<str>);

impl Version {
    /// A version from a backend's own mark.
    pub fn new(mark: impl Into<Arc<str>>) -> Self {
        Self(mark.into())
    }

    /// The mark.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A version made from the content itself: its length and the first half of its SHA-256, the same wherever and
    /// whenever it is made, as versions are stored with threads.
    ///
    /// Versions of logs from before this are of another form and equal none of these: such a file counts as changed and
    /// is read again.
    pub fn from_content(content: &[u8]) -> Self {
        use std::fmt::Write;
        let mut mark = format!("{:x}-", content.len());
        for byte in Sha256::digest(content).iter().take(16) {
            let _ = write!(mark, "{byte:02x}");
        }
        Self(mark.into())
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({})", self.0)
    }
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Listed, but neither: a device, FIFO or socket, or a link that leads nowhere, in a circle or outside.
    Other,
}

impl Kind {
    /// Refuses what is not a file.
    pub(crate) fn require_file(self, path: &VPath) -> Result<(), FsError> {
        match self {
            Self::File => Ok(()),
            Self::Directory => Err(FsError::IsDirectory(path.clone())),
            Self::Other => Err(FsError::Special(path.clone())),
        }
    }
}

/// Facts about a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// Bytes; 0 for a directory.
    pub size: u64,
    /// The version of its content.
    pub version: Version,
    /// When it was last written, if known.
    pub modified: Option<Timestamp>,
}

impl Stat {
    /// A file.
    pub fn file(size: u64, version: Version) -> Self {
        Self { kind: Kind::File, size, version, modified: None }
    }

    /// A directory.
    pub fn directory() -> Self {
        Self { kind: Kind::Directory, size: 0, version: Version::new("directory"), modified: None }
    }

    /// What is at a path that is no file, in a store that knows files alone, from the paths of all of them: a directory
    /// if files are below.
    ///
    /// # Errors
    /// [`FsError::NotADirectory`] naming the file that is in the way, otherwise [`FsError::NotFound`].
    pub fn implied<'a>(path: &VPath, files: impl IntoIterator<Item = &'a VPath>) -> Result<Self, FsError> {
        if path.is_root() {
            return Ok(Self::directory());
        }
        for file in files {
            if file.starts_with(path) {
                return Ok(Self::directory());
            }
            if path.starts_with(file) {
                return Err(FsError::NotADirectory(file.clone()));
            }
        }
        Err(FsError::NotFound(path.clone()))
    }
}
