//! The identity of the open file. If it is removed or replaced while in use, SQLite would continue writing to the
//! unlinked file.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::DatabaseError;

/// The file that was opened, and the path where it must remain.
#[derive(Debug)]
pub(super) struct FileIdentity {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// Returns the identity of a file that was just opened.
    pub(super) fn of(path: &Path) -> Result<Self, DatabaseError> {
        let (device, inode) = identity(path).map_err(|error| DatabaseError::Unavailable {
            database: path.display().to_string(),
            reason: error.to_string(),
        })?;
        Ok(Self { path: path.to_owned(), device, inode })
    }

    /// # Errors
    /// Returns [`DatabaseError::Removed`] if the path no longer names this file.
    pub(super) fn check(&self) -> Result<(), DatabaseError> {
        let reason = match identity(&self.path) {
            Ok(found) if found != (self.device, self.inode) => "another file is in its place",
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => "it is not there",
            // A temporarily inaccessible file is not removed.
            _ => return Ok(()),
        };
        Err(DatabaseError::Removed { database: self.path.display().to_string(), reason: reason.to_owned() })
    }
}

#[allow(clippy::disallowed_methods, reason = "the database looks at its own file")]
fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}
