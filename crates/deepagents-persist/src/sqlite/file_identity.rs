//! The identity of the open files. If one is removed or replaced while in use, SQLite would continue writing to the
//! unlinked file, and what it writes there is gone with the process.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::DatabaseError;

/// The files that SQLite keeps beside the database while it is open: the WAL and its index.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// The files that were opened, and the paths where they must remain.
#[derive(Debug)]
pub(super) struct FileIdentity {
    path: PathBuf,
    files: Vec<(PathBuf, Identity)>,
}

/// Device and inode.
type Identity = (u64, u64);

impl FileIdentity {
    /// Returns the identity of a file that was just opened.
    pub(super) fn of(path: &Path) -> Result<Self, DatabaseError> {
        let own = identity(path).map_err(|error| DatabaseError::Unavailable {
            database: path.display().to_string(),
            reason: error.to_string(),
        })?;
        Ok(Self { path: path.to_owned(), files: vec![(path.to_owned(), own)] })
    }

    /// Returns the identity of a file that was just opened for writing, together with those beside it.
    pub(super) fn with_wal(path: &Path) -> Result<Self, DatabaseError> {
        let mut identity = Self::of(path)?;
        identity.files.extend(BESIDE.iter().filter_map(|suffix| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            let file = PathBuf::from(name);
            let own = self::identity(&file).ok()?;
            Some((file, own))
        }));
        Ok(identity)
    }

    /// # Errors
    /// Returns [`DatabaseError::Removed`] if a path no longer names its file.
    pub(super) fn check(&self) -> Result<(), DatabaseError> {
        for (file, own) in &self.files {
            let reason = match identity(file) {
                Ok(found) if found != *own => "another file is in its place",
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    "it is not there"
                }
                // A temporarily inaccessible file is not removed.
                _ => continue,
            };
            let reason = if *file == self.path { reason.to_owned() } else { format!("{}: {reason}", file.display()) };
            return Err(DatabaseError::Removed { database: self.path.display().to_string(), reason });
        }
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "the database looks at its own file")]
fn identity(path: &Path) -> std::io::Result<Identity> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}
