//! Types for reading and writing file content.

use std::io::{Read, Seek, SeekFrom};

use bytes::Bytes;
use deepagents_core::state::Update;

use super::{Stat, Version};
use crate::{FsError, VPath};

/// A range of bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Number of bytes to skip.
    pub offset: u64,
    /// Maximum number of bytes to read; `None` reads to the end.
    pub length: Option<u64>,
}

impl ByteRange {
    /// The whole file.
    pub const ALL: Self = Self { offset: 0, length: None };

    /// Creates a range of the first `length` bytes.
    pub fn first(length: u64) -> Self {
        Self { offset: 0, length: Some(length) }
    }

    /// Returns this range of content in memory.
    pub fn slice(self, content: &Bytes) -> Bytes {
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX).min(content.len());
        let length = self.length.and_then(|l| usize::try_from(l).ok()).unwrap_or(usize::MAX);
        content.slice(start..start.saturating_add(length).min(content.len()))
    }
}

/// Bytes read from a file, with the file's metadata.
#[derive(Clone, Debug)]
pub struct FileRead {
    /// The bytes of the range.
    pub bytes: Bytes,
    /// Metadata of the file, of which the bytes may be a part.
    pub stat: Stat,
}

impl FileRead {
    /// Reads a range of content in memory.
    ///
    /// # Errors
    /// Returns an error if `stat` does not describe a file.
    pub fn from_whole(path: &VPath, content: &Bytes, stat: Stat, range: ByteRange) -> Result<Self, FsError> {
        stat.kind.require_file(path)?;
        Ok(Self { bytes: range.slice(content), stat })
    }

    /// Reads a range of at most `limit` bytes of an open file.
    pub(crate) fn from_open(
        path: &VPath,
        mut file: impl Read + Seek,
        stat: Stat,
        range: ByteRange,
        limit: u64,
    ) -> Result<Self, FsError> {
        let failed = |error: std::io::Error| FsError::from_io(path, &error);
        let length = range.length.unwrap_or(u64::MAX);
        let expected = length.min(stat.size.saturating_sub(range.offset));
        if expected > limit {
            return Err(FsError::TooLarge { path: path.clone(), size: stat.size, limit });
        }
        if range.offset > 0 {
            file.seek(SeekFrom::Start(range.offset)).map_err(failed)?;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
        // The file may grow while it is read, and some files in /proc report no size.
        file.take(length.min(limit.saturating_add(1))).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > limit {
            return Err(FsError::TooLarge { path: path.clone(), size: bytes.len() as u64, limit });
        }
        Ok(Self { bytes: Bytes::from(bytes), stat })
    }
}

/// Condition for writing a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// Only if the file does not exist.
    Create,
    /// Always.
    #[default]
    Overwrite,
    /// Only if the file is still at this version.
    IfVersion(Version),
}

impl WriteMode {
    /// Checks the condition against the version of the existing file.
    ///
    /// # Errors
    /// Returns an error if the condition does not hold.
    pub fn check(&self, path: &VPath, there: Option<&Version>) -> Result<(), FsError> {
        match (self, there) {
            (Self::Create, Some(_)) => Err(FsError::AlreadyExists(path.clone())),
            (Self::IfVersion(expected), there) if Some(expected) != there => Err(FsError::Changed(path.clone())),
            _ => Ok(()),
        }
    }

    /// Checks the condition against the result of [`stat`](super::Backend::stat) on the path.
    ///
    /// # Errors
    /// Returns an error if the condition does not hold or if the path is not a file, and passes on any error of `there`
    /// except [`FsError::NotFound`].
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

/// Result of a write.
#[derive(Clone, Debug)]
pub struct Written {
    /// The state update; for a store in the state, applying it is the write.
    pub update: Update,
    /// The new version of the file.
    pub version: Version,
}
