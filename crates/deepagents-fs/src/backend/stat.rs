//! File metadata and versions.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{FsError, VPath};

/// Identifies one version of a file's content. Two equal versions mean that the file did not change in between.
///
/// Its text is opaque and backend-specific: store and compare versions, nothing else.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(Arc<str>);

impl Version {
    /// Creates a version from a backend's own identifier.
    pub fn new(mark: impl Into<Arc<str>>) -> Self {
        Self(mark.into())
    }

    /// Returns the identifier.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Derives a version from the content: its length and the first half of its SHA-256. The result never varies
    /// between machines or releases, as versions are stored with threads.
    ///
    /// Older logs hold versions in another format, which equal none of these; such a file counts as changed and is read
    /// again.
    pub fn from_content(content: &[u8]) -> Self {
        let hash = hex(&Sha256::digest(content));
        Self::new(format!("{:x}-{hash:.32}", content.len()))
    }
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({})", self.0)
    }
}

/// Kind of a file-system entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Neither of these, but listed: a device, a FIFO, a socket, or a link that is dangling, circular or leads outside.
    Other,
}

impl Kind {
    /// Returns an error if this is not a file.
    pub(crate) fn require_file(self, path: &VPath) -> Result<(), FsError> {
        match self {
            Self::File => Ok(()),
            Self::Directory => Err(FsError::IsDirectory(path.clone())),
            Self::Other => Err(FsError::Special(path.clone())),
        }
    }
}

/// Metadata of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Kind of the entry.
    pub kind: Kind,
    /// Size in bytes; 0 for a directory.
    pub size: u64,
    /// Version of the content.
    pub version: Version,
    /// Time of the last write, if known.
    pub modified: Option<Timestamp>,
}

impl Stat {
    /// Creates the metadata of a file.
    pub fn file(size: u64, version: Version) -> Self {
        Self { kind: Kind::File, size, version, modified: None }
    }

    /// Creates the metadata of a directory.
    pub fn directory() -> Self {
        Self { kind: Kind::Directory, size: 0, version: Version::new("directory"), modified: None }
    }

    /// Returns the metadata of a path that is not a file, in a store that has only files, from the paths of all its
    /// files: a directory if any file is below the path.
    ///
    /// # Errors
    /// Returns [`FsError::NotADirectory`] with the file in the way, if there is one above the path, and
    /// [`FsError::NotFound`] otherwise.
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
