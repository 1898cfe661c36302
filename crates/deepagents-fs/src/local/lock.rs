//! Directory locks between processes.

use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, flock, openat};
use rustix::io::Errno;

use super::open::DIRECTORY;
use crate::{FsError, VPath};

/// How long a change waits for another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Lock on a directory, held only while a file in it is replaced or deleted. Released on drop, and when the process
/// ends.
pub(super) struct DirectoryLock {
    _directory: Option<OwnedFd>,
}

impl DirectoryLock {
    /// Acquires the lock. On a file system without locks, the returned lock has no effect.
    ///
    /// # Errors
    /// Returns an error if another process, such as a command that was told to, does not release the lock in time.
    pub(super) fn take(path: &VPath, directory: &OwnedFd) -> Result<Self, FsError> {
        // Open the directory again: a lock belongs to the open file description, not to its holder.
        let Ok(own) = openat(directory, c".", DIRECTORY, Mode::empty()) else { return Ok(Self { _directory: None }) };
        let (end, mut pause) = (Instant::now() + LOCK_TIMEOUT, Duration::from_micros(50));
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
