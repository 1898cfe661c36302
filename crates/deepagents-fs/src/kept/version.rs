//! One version of what is at a path.

use serde::{Deserialize, Serialize};

/// What was at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileVersion {
    /// Nothing.
    Absent,
    /// A file.
    File {
        /// SHA-256 of its content, in hexadecimal digits.
        hash: String,
        /// Bytes.
        size: u64,
        /// Its permission bits.
        mode: u32,
        /// Whether the content is in the store; larger files are only known by their hash.
        #[serde(default = "yes", skip_serializing_if = "is_yes")]
        kept: bool,
    },
    /// A directory.
    Directory {
        /// Its permission bits; none where it is made with those that new directories have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
    },
    /// A symbolic link.
    Link {
        /// Where it led.
        to: String,
    },
    /// Something that was not kept.
    Unkept {
        /// Why.
        why: String,
    },
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
fn is_yes(kept: &bool) -> bool {
    *kept
}

impl FileVersion {
    /// Whether both have the same content; permission bits do not count, and what was not kept is like nothing else.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Absent, Self::Absent) | (Self::Directory { .. }, Self::Directory { .. }) => true,
            (Self::File { hash: a, .. }, Self::File { hash: b, .. }) => a == b,
            (Self::Link { to: a }, Self::Link { to: b }) => a == b,
            _ => false,
        }
    }

    /// Whether it is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }

    /// The hash of a content that is in the store.
    pub(crate) fn hash(&self) -> Option<&str> {
        match self {
            Self::File { hash, kept: true, .. } => Some(hash),
            _ => None,
        }
    }
}
