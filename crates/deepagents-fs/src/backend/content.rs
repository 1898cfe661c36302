//! What is read of a file, and what is written to one.

use bytes::Bytes;
use deepagents_core::state::Update;

use super::{Stat, Version};
use crate::{FsError, VPath};

/// Which bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Bytes to skip.
    pub offset: u64,
    /// Bytes to read at most; none means to the end.
    pub length: Option<u64>,
}

impl ByteRange {
    /// The whole file.
    pub const ALL: Self = Self { offset: 0, length: None };

    /// The first bytes.
    pub fn first(length: u64) -> Self {
        Self { offset: 0, length: Some(length) }
    }

    /// Its part of content that is at hand.
    pub fn slice(self, content: &Bytes) -> Bytes {
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX).min(content.len());
        let length = self.length.and_then(|l| usize::try_from(l).ok()).unwrap_or(usize::MAX);
        content.slice(start..start.saturating_add(length).min(content.len()))
    }
}

/// Bytes that were read, and facts about the file they are from.
#[derive(Clone, Debug)]
pub struct FileRead {
    /// The bytes of the range.
    pub bytes: Bytes,
    /// The file, of which the bytes may be a part.
    pub stat: Stat,
}

impl FileRead {
    /// A range of content that is at hand.
    ///
    /// # Errors
    /// When `stat` is not a file's.
    pub fn from_whole(path: &VPath, content: &Bytes, stat: Stat, range: ByteRange) -> Result<Self, FsError> {
        stat.kind.require_file(path)?;
        Ok(Self { bytes: range.slice(content), stat })
    }
}

/// Under which condition a file is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// Only if there is no file.
    Create,
    /// In any case.
    #[default]
    Overwrite,
    /// Only if the file is still this version.
    IfVersion(Version),
}

impl WriteMode {
    /// Whether a file may be written, given the version that is there.
    ///
    /// # Errors
    /// When the condition does not hold.
    pub fn check(&self, path: &VPath, there: Option<&Version>) -> Result<(), FsError> {
        match (self, there) {
            (Self::Create, Some(_)) => Err(FsError::AlreadyExists(path.clone())),
            (Self::IfVersion(expected), there) if Some(expected) != there => Err(FsError::Changed(path.clone())),
            _ => Ok(()),
        }
    }

    /// Whether a file may be written, given what [`stat`](super::Backend::stat) says of its path.
    ///
    /// # Errors
    /// When the condition does not hold, when something other than a file is there, and those of `there` but
    /// [`FsError::NotFound`].
    pub fn check_at(&self, path: &VPath, there: Result<Stat, FsError>) -> Result<(), FsError> {
        match there {
            Ok(stat) => {
                stat.kind.require_file(path)?;
                self.check(path, Some(&stat.version))
            }
            Err(FsError::NotFound(_)) => self.check(path, None),
            Err(error) => Err(error),
        }
    }
}

/// A write that was done.
#[derive(Clone, Debug)]
pub struct Written {
    /// What it changes in the state; for a store in the state, the write itself.
    pub update: Update,
    /// The version of the file now.
    pub version: Version,
}
