//! One process after the other.

use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, flock, openat};
use rustix::io::Errno;

use super::open::DIRECTORY;
use crate::{FsError, VPath};

/// How long a change waits for another process.
const PATIENCE: Duration = Duration::from_secs(5);

/// A lock on a directory, for the moment in which a file in it is replaced or deleted. It ends when this is dropped, or
/// with the process.
pub(super) struct DirectoryLock {
    _directory: Option<OwnedFd>,
}

impl DirectoryLock {
    /// Waits for the lock. A file system without locks gives one that binds nobody.
    ///
    /// # Errors
    /// When somebody, such as a command that was told to, does not let go of it.
    pub(super) fn take(path: &VPath, directory: &OwnedFd) -> Result<Self, FsError> {
        // Opened again, as a lock belongs to what was opened and not to who has it.
        let Ok(own) = openat(directory, c".", DIRECTORY, Mode::empty()) else { return Ok(Self { _directory: None }) };
        let (end, mut pause) = (Instant::now() + PATIENCE, Duration::from_micros(50));
        loop {
            match flock(&own, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) if Instant::now() < end => {
                    std::thread::sleep(pause);
                    pause = (2 * pause).min(Duration::from_millis(5));
                }
                Err(Errno::WOULDBLOCK) => {
                    let reason = "somebody else keeps its directory locked; try again".to_owned();
                    return Err(FsError::TimedOut { path: path.clone(), reason });
                }
                Err(Errno::INTR) => {}
                Ok(()) | Err(_) => return Ok(Self { _directory: Some(own) }),
            }
        }
    }
}
