//! Walks a directory tree that is to be deleted.

use std::ffi::{CStr, CString};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, Stat as HostStat, fstat, openat};
use rustix::io::Errno;

use super::open::{At, DIRECTORY, failed, same_mount};
use crate::{FsError, VPath};

/// A directory on the way down.
struct Level {
    host: HostStat,
    name: CString,
    /// Names of the subdirectories still to be visited.
    left: Vec<CString>,
}

/// Visits a directory and everything below it. `enter` returns the names of a directory's subdirectories. `leave` is
/// called for each of them with its parent directory and the flags to delete it with: after its own subdirectories, or
/// at once if something else has taken its place.
///
/// Only one directory is open at a time, however deep the tree. The way back up is `..`, checked to be the directory it
/// was entered from.
///
/// # Errors
/// Returns an error if something is mounted in the tree, and passes on those of `enter` and `leave`.
pub(super) fn walk_tree(
    path: &VPath,
    top: OwnedFd,
    mut enter: impl FnMut(&OwnedFd) -> Result<Vec<CString>, FsError>,
    mut leave: impl FnMut(&OwnedFd, &CStr, AtFlags) -> Result<(), FsError>,
) -> Result<(), FsError> {
    let mut levels = vec![Level { host: fstat(&top).at(path)?, name: CString::default(), left: enter(&top)? }];
    let mut current = top;
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.left.pop() {
            match openat(&current, &name, DIRECTORY, Mode::empty()) {
                Ok(next) if same_mount(&next, &current).at(path)? => {
                    levels.push(Level { host: fstat(&next).at(path)?, name, left: enter(&next)? });
                    current = next;
                }
                // A mount point is not part of this tree.
                Ok(_) => return Err(FsError::Fixed(path.clone())),
                Err(Errno::LOOP | Errno::NOTDIR) => leave(&current, &name, AtFlags::empty())?,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(path, errno)),
            }
            continue;
        }
        let done = levels.pop();
        let (Some(done), Some(above)) = (done, levels.last()) else { break };
        current = up(path, &current, &above.host)?;
        leave(&current, &done.name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Opens the parent of a directory, and checks that it is still the one the directory was entered from.
fn up(path: &VPath, directory: &OwnedFd, above: &HostStat) -> Result<OwnedFd, FsError> {
    let up = openat(directory, c"..", DIRECTORY, Mode::empty()).at(path)?;
    let host = fstat(&up).at(path)?;
    if (host.st_dev, host.st_ino) != (above.st_dev, above.st_ino) {
        return Err(FsError::io(path, std::io::ErrorKind::Other, "it was moved while it was being deleted"));
    }
    Ok(up)
}
