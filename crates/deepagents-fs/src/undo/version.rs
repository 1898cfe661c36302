//! One version of what is at a path.

use std::io::{self, ErrorKind, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What was at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileVersion {
    /// Nothing.
    Absent,
    /// A file.
    File {
        /// SHA-256 of its content, in hexadecimal digits; of a file that is larger than what is recorded a mark made of
        /// the time of its last change.
        hash: String,
        /// Bytes.
        size: u64,
        /// Its permission bits.
        mode: u32,
        /// Whether the content is in the undo database; of larger files only size and time are known.
        stored: bool,
    },
    /// A directory.
    Directory {
        /// Its permission bits; none where it is made with those that new directories have.
        mode: Option<u32>,
    },
    /// A symbolic link.
    Link {
        /// Where it led.
        target: String,
    },
    /// Something that cannot be recorded.
    Unrecorded {
        /// Why.
        reason: String,
    },
}

impl FileVersion {
    /// Whether both have the same content; permission bits do not count, and what was not recorded equals nothing.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Absent, Self::Absent) | (Self::Directory { .. }, Self::Directory { .. }) => true,
            (Self::File { hash: a, size, .. }, Self::File { hash: b, size: other, .. }) => {
                // A hash and a time say nothing about each other; then the size has to do.
                size == other && (a == b || a.starts_with(TIME) != b.starts_with(TIME))
            }
            (Self::Link { target: a }, Self::Link { target: b }) => a == b,
            _ => false,
        }
    }

    /// Whether it is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }

    pub(crate) fn unrecorded(reason: impl Into<String>) -> Self {
        Self::Unrecorded { reason: reason.into() }
    }
}

/// What a mark of time begins with; no hash does.
const TIME: &str = "time:";

/// Stands for the hash of a file that is larger than what is recorded.
pub(crate) fn time_mark(modified: jiff::Timestamp) -> String {
    format!("{TIME}{}", modified.as_nanosecond())
}

/// The SHA-256 of a content, in hexadecimal digits.
pub(crate) fn hash_of(content: &[u8]) -> String {
    digits(&Sha256::digest(content))
}

/// The hash and size of what is read, held in memory only in part.
pub(crate) fn hash_stream(mut from: impl Read) -> io::Result<(String, u64)> {
    let (mut hasher, mut size, mut chunk) = (Sha256::new(), 0, vec![0; 64 << 10]);
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok((digits(&hasher.finalize()), size)),
            Ok(n) => {
                hasher.update(chunk.get(..n).unwrap_or_default());
                size += n as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
