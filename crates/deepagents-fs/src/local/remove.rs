//! Deleting files and trees.

use std::ffi::CString;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat as HostStat, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::Root;
use super::open::{SAFE, failed};
use super::resolve::Last;
use crate::{FsError, VPath};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(SAFE);

impl Root {
    pub(super) fn remove(&self, path: &VPath) -> Result<(), FsError> {
        let fail = |errno| failed(path, errno);
        let place = self.locate(path, Last::Keep)?;
        let Some(name) = &place.name else { return Err(FsError::Fixed { path: path.clone() }) };
        let host = statat(&place.directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
        if FileType::from_raw_mode(host.st_mode) != FileType::Directory {
            return unlinkat(&place.directory, name, AtFlags::empty()).map_err(fail);
        }
        let top = openat(&place.directory, name, DIRECTORY, Mode::empty()).map_err(fail)?;
        let above = fstat(&place.directory).map_err(fail)?;
        if fstat(&top).map_err(fail)?.st_dev != above.st_dev {
            return Err(FsError::Fixed { path: path.clone() });
        }
        empty(path, top)?;
        unlinkat(&place.directory, name, AtFlags::REMOVEDIR).map_err(fail)
    }
}

/// One directory on the way down: what it is, and its sub-directories that are left.
struct Level {
    host: HostStat,
    name: Option<CString>,
    left: Vec<CString>,
}

/// Deletes all that a directory holds. However deep the tree, one directory is open at a time: going up is through
/// `..`, checked to be the directory that was come from.
fn empty(path: &VPath, top: OwnedFd) -> Result<(), FsError> {
    let fail = |errno| failed(path, errno);
    let mut current = top;
    let mut levels = vec![enter(path, &current, None)?];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.left.pop() {
            let next = match openat(&current, &name, DIRECTORY, Mode::empty()) {
                Ok(next) => next,
                // Swapped for something else since it was listed.
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    unlinkat(&current, &name, AtFlags::empty()).map_err(fail)?;
                    continue;
                }
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(fail(errno)),
            };
            if fstat(&next).map_err(fail)?.st_dev != level.host.st_dev {
                // Something is mounted there.
                return Err(FsError::Fixed { path: path.clone() });
            }
            let entered = enter(path, &next, Some(name))?;
            current = next;
            levels.push(entered);
            continue;
        }
        let done = levels.pop();
        let (Some(name), Some(above)) = (done.and_then(|level| level.name), levels.last()) else { break };
        let up = openat(&current, c"..", DIRECTORY, Mode::empty()).map_err(fail)?;
        let host = fstat(&up).map_err(fail)?;
        if (host.st_dev, host.st_ino) != (above.host.st_dev, above.host.st_ino) {
            return Err(FsError::io(path, std::io::ErrorKind::Other, "it was moved while it was being deleted"));
        }
        match unlinkat(&up, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(fail(errno)),
        }
        current = up;
    }
    Ok(())
}

/// Deletes what is not a directory in a directory, and lists what is.
fn enter(path: &VPath, directory: &OwnedFd, name: Option<CString>) -> Result<Level, FsError> {
    let fail = |errno| failed(path, errno);
    let host = fstat(directory).map_err(fail)?;
    let mut left = Vec::new();
    let mut files = Vec::new();
    for found in Dir::read_from(directory).map_err(fail)? {
        let found = found.map_err(fail)?;
        let name = found.file_name().to_owned();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let mut file_type = found.file_type();
        if file_type == FileType::Unknown {
            let host = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
            file_type = FileType::from_raw_mode(host.st_mode);
        }
        if file_type == FileType::Directory { left.push(name) } else { files.push(name) }
    }
    for name in files {
        match unlinkat(directory, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(fail(errno)),
        }
    }
    Ok(Level { host, name, left })
}
