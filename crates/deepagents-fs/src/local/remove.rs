//! Deleting files and trees.

use std::ffi::{CString, OsStr};
use std::sync::PoisonError;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat as HostStat, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::Root;
use super::keeping::{Keeping, by_agent, not_kept};
use super::open::{SAFE, failed, version_of};
use super::resolve::{Last, Place, real_of};
use crate::kept::FileVersion;
use crate::{FsError, VPath, Version};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(SAFE);

/// How often a change is begun anew when somebody changes the file in between.
const MAX_RACES: usize = 16;

impl Root {
    pub(super) fn remove(&self, path: &VPath) -> Result<(), FsError> {
        let place = self.locate(path, Last::Keep)?;
        self.remove_at(path, &place, None)
    }

    /// Deletes and keeps what is deleted; returns the number of the last change.
    pub(super) fn remove_kept(&self, path: &VPath, keeping: Keeping<'_>) -> Result<u64, FsError> {
        let _held = keeping.store.shared().map_err(|error| not_kept(path, &error))?;
        for _ in 0..MAX_RACES {
            let place = self.locate(path, Last::Keep)?;
            let Some(name) = &place.name else { return Err(FsError::Fixed { path: path.clone() }) };
            let real = real_of(path, &place)?;
            let seen = self.look(path, &place.directory, name, Some(keeping.store))?;
            let changes = match seen.version {
                FileVersion::Absent => return Err(FsError::NotFound { path: path.clone() }),
                version @ FileVersion::Directory { .. } => {
                    let top = match openat(&place.directory, name, DIRECTORY, Mode::empty()) {
                        Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => continue,
                        top => top.map_err(|errno| failed(path, errno))?,
                    };
                    self.keep_tree(by_agent(real, version, FileVersion::Absent), top, keeping.store)?
                }
                version => vec![by_agent(real, version, FileVersion::Absent)],
            };
            let noted = keeping.note(path, changes, self.options.sync)?;
            match self.remove_at(path, &place, seen.host.as_ref()) {
                Ok(()) => {
                    keeping.mark(&noted, true);
                    return Ok(*noted.end());
                }
                Err(FsError::Changed { .. }) => keeping.mark(&noted, false),
                // Of a directory a part may be gone.
                Err(error) => return Err(error),
            }
        }
        Err(FsError::Changed { path: path.clone() })
    }

    /// Deletes what is at a place; a file only if it is still the given version.
    pub(super) fn remove_at(&self, path: &VPath, place: &Place, based: Option<&Version>) -> Result<(), FsError> {
        let fail = |errno| failed(path, errno);
        let Some(name) = &place.name else { return Err(FsError::Fixed { path: path.clone() }) };
        let host = statat(&place.directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
        if FileType::from_raw_mode(host.st_mode) != FileType::Directory {
            return self.unlink(path, &place.directory, name, based);
        }
        let top = openat(&place.directory, name, DIRECTORY, Mode::empty()).map_err(fail)?;
        let above = fstat(&place.directory).map_err(fail)?;
        if fstat(&top).map_err(fail)?.st_dev != above.st_dev {
            return Err(FsError::Fixed { path: path.clone() });
        }
        empty(path, top)?;
        unlinkat(&place.directory, name, AtFlags::REMOVEDIR).map_err(fail)
    }

    /// Deletes what is no directory; only if it is still the given version.
    pub(super) fn unlink(
        &self,
        path: &VPath,
        directory: &OwnedFd,
        name: &OsStr,
        based: Option<&Version>,
    ) -> Result<(), FsError> {
        let fail = |errno| failed(path, errno);
        let _commit = self.commit.lock().unwrap_or_else(PoisonError::into_inner);
        let host = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
        if based.is_some_and(|based| *based != version_of(&host)) {
            return Err(FsError::Changed { path: path.clone() });
        }
        unlinkat(directory, name, AtFlags::empty()).map_err(fail)
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
