//! Turns of changes in a directory, within this process and between processes.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, flock, fstat, openat};
use rustix::io::Errno;

use super::open::{At, DIRECTORY};
use crate::{FsError, VPath};

/// How long a change waits for others in the same directory.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Device and inode of a directory.
type Directory = (u64, u64);

/// The directories in which this process is changing something. A change in one does not wait for those in another,
/// whose lock may be held by a command for as long as it likes.
#[derive(Debug, Default)]
pub(super) struct Turns {
    busy: Mutex<HashSet<Directory>>,
    ended: Condvar,
}

/// The turn of one change, held only while a file is replaced or deleted. It includes a lock on the directory that
/// keeps out other processes; the lock ends with this process too.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    directory: Directory,
    lock: Option<OwnedFd>,
}

impl Turns {
    /// Waits for its turn. On a file system without locks, only this process is kept out.
    ///
    /// # Errors
    /// Returns an error if another process, such as a command that was told to, does not release the lock in time.
    pub(super) fn take(&self, path: &VPath, directory: &OwnedFd) -> Result<Turn<'_>, FsError> {
        let end = Instant::now() + LOCK_TIMEOUT;
        let found = fstat(directory).at(path)?;
        #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
        let own = (found.st_dev as u64, found.st_ino);
        let mut busy = self.busy();
        while busy.contains(&own) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(timed_out(path));
            }
            busy = self.ended.wait_timeout(busy, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        busy.insert(own);
        drop(busy);
        let mut turn = Turn { turns: self, directory: own, lock: None };
        turn.lock = lock(path, directory, end)?;
        Ok(turn)
    }

    fn busy(&self) -> MutexGuard<'_, HashSet<Directory>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        drop(self.lock.take());
        self.turns.busy().remove(&self.directory);
        self.turns.ended.notify_all();
    }
}

/// Locks a directory; `None` if it cannot be opened again.
fn lock(path: &VPath, directory: &OwnedFd, end: Instant) -> Result<Option<OwnedFd>, FsError> {
    // Open the directory again: a lock belongs to the open file description, not to its holder.
    let Ok(own) = openat(directory, c".", DIRECTORY, Mode::empty()) else { return Ok(None) };
    let mut pause = Duration::from_micros(50);
    loop {
        match flock(&own, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if Instant::now() < end => {
                std::thread::sleep(pause);
                pause = (2 * pause).min(Duration::from_millis(5));
            }
            Err(Errno::WOULDBLOCK) => return Err(timed_out(path)),
            Err(Errno::INTR) => {}
            Ok(()) | Err(_) => return Ok(Some(own)),
        }
    }
}

fn timed_out(path: &VPath) -> FsError {
    let reason = "somebody else keeps its directory locked; try again".to_owned();
    FsError::TimedOut { path: path.clone(), reason }
}
