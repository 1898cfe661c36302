//! Recorded versions of a file.

use std::io::{self, ErrorKind, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::backend::hex;

/// Recorded version of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileVersion {
    /// Nothing existed.
    Absent,
    /// A file.
    File {
        /// SHA-256 of the content in hexadecimal; for a file too large to record, a mark made of its modification time.
        hash: String,
        /// Size in bytes.
        size: u64,
        /// Permission bits.
        mode: u32,
        /// Whether the undo database has the content; of larger files only size and time are recorded.
        stored: bool,
    },
    /// A directory.
    Directory {
        /// Permission bits; `None` for the default mode of new directories.
        mode: Option<u32>,
    },
    /// A symbolic link.
    Link {
        /// Target of the link.
        target: String,
    },
    /// Something that cannot be recorded.
    Unrecorded {
        /// The reason.
        reason: String,
    },
}

impl FileVersion {
    /// Returns whether both have the same content. Ignores permission bits; an unrecorded version equals nothing, not
    /// even itself.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Absent, Self::Absent) | (Self::Directory { .. }, Self::Directory { .. }) => true,
            (Self::File { hash: a, size, .. }, Self::File { hash: b, size: other, .. }) => {
                // A hash cannot be compared with a time mark, so equal sizes have to suffice.
                size == other && (a == b || a.starts_with(TIME) != b.starts_with(TIME))
            }
            (Self::Link { target: a }, Self::Link { target: b }) => a == b,
            _ => false,
        }
    }

    /// Returns whether this is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }

    pub(crate) fn unrecorded(reason: impl Into<String>) -> Self {
        Self::Unrecorded { reason: reason.into() }
    }
}

/// Prefix of time marks, with which no hash begins.
const TIME: &str = "time:";

/// Returns the mark that replaces the hash of a file too large to record.
pub(crate) fn time_mark(modified: jiff::Timestamp) -> String {
    format!("{TIME}{}", modified.as_nanosecond())
}

/// Returns the SHA-256 of content in hexadecimal.
pub(crate) fn hash_of(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

/// Returns the hash and size of a stream, holding only one chunk in memory.
pub(crate) fn hash_stream(mut from: impl Read) -> io::Result<(String, u64)> {
    let (mut hasher, mut size, mut chunk) = (Sha256::new(), 0, vec![0; 64 << 10]);
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok((hex(&hasher.finalize()), size)),
            Ok(n) => {
                hasher.update(chunk.get(..n).unwrap_or_default());
                size += n as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
