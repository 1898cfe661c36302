//! Deletes files and directory trees.

use std::ffi::{CString, OsStr};
use std::sync::PoisonError;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, Stat as HostStat, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::Root;
use super::lock::DirectoryLock;
use super::open::{At, DIRECTORY, allow, failed, same_mount, version_of};
use super::resolve::{Last, Place};
use crate::sandbox::appeared::forget;
use crate::{FsError, VPath, Version};

/// Maximum number of file names held while a directory is emptied.
const MAX_HELD_NAMES: usize = 50_000;

impl Root {
    pub(super) fn remove(&self, path: &VPath) -> Result<(), FsError> {
        self.check_named(path)?;
        let place = self.locate(path, Last::NoFollow)?;
        self.check_removal(path, &place)?;
        self.remove_at(path, &place, None)
    }

    /// Deletes the file or directory at a place; a file only if it is still at the given version.
    pub(super) fn remove_at(&self, path: &VPath, place: &Place, based: Option<&Version>) -> Result<(), FsError> {
        let Some(name) = &place.name else { return Err(FsError::Fixed(path.clone())) };
        let host = statat(&place.directory, name, AtFlags::SYMLINK_NOFOLLOW).at(path)?;
        if FileType::from_raw_mode(host.st_mode) != FileType::Directory {
            self.unlink(path, &place.directory, name, based)?;
            forget(&self.fd, &place.shown());
            return Ok(());
        }
        let top = openat(&place.directory, name, DIRECTORY, Mode::empty()).at(path)?;
        if !same_mount(&top, &place.directory).at(path)? {
            return Err(FsError::Fixed(path.clone()));
        }
        self.empty(path, top)?;
        unlinkat(&place.directory, name, AtFlags::REMOVEDIR).at(path)?;
        forget(&self.fd, &place.shown());
        Ok(())
    }

    /// Deletes a non-directory, only if it is still at the given version.
    pub(super) fn unlink(
        &self,
        path: &VPath,
        directory: &OwnedFd,
        name: &OsStr,
        based: Option<&Version>,
    ) -> Result<(), FsError> {
        let _commit = self.commit.lock().unwrap_or_else(PoisonError::into_inner);
        let _turn = DirectoryLock::take(path, directory)?;
        let host = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).at(path)?;
        if based.is_some_and(|based| *based != version_of(&host)) {
            return Err(FsError::Changed(path.clone()));
        }
        unlinkat(directory, name, AtFlags::empty()).at(path)
    }

    /// Deletes the contents of a directory. Only one directory is open at a time, however deep the tree; the way back
    /// up is `..`, checked to be the directory it was entered from.
    fn empty(&self, path: &VPath, top: OwnedFd) -> Result<(), FsError> {
        let mut current = top;
        let mut levels = vec![self.enter(path, &current, None)?];
        while let Some(level) = levels.last_mut() {
            if let Some(name) = level.left.pop() {
                let next = match openat(&current, &name, DIRECTORY, Mode::empty()) {
                    Ok(next) => next,
                    // Replaced by something else since it was listed.
                    Err(Errno::LOOP | Errno::NOTDIR) => {
                        unlinkat(&current, &name, AtFlags::empty()).at(path)?;
                        continue;
                    }
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(failed(path, errno)),
                };
                if !same_mount(&next, &current).at(path)? {
                    return Err(FsError::Fixed(path.clone()));
                }
                let entered = self.enter(path, &next, Some(name))?;
                current = next;
                levels.push(entered);
                continue;
            }
            let done = levels.pop();
            let (Some(name), Some(above)) = (done.and_then(|level| level.name), levels.last()) else { break };
            let up = up(path, &current, &above.host)?;
            allow(Errno::NOENT, unlinkat(&up, &name, AtFlags::REMOVEDIR)).at(path)?;
            current = up;
        }
        Ok(())
    }

    /// Deletes the non-directories in a directory and lists its subdirectories.
    fn enter(&self, path: &VPath, directory: &OwnedFd, name: Option<CString>) -> Result<Level, FsError> {
        let host = fstat(directory).at(path)?;
        let mut left = Vec::new();
        // A directory with millions of files is processed in parts.
        loop {
            left.clear();
            let mut files = Vec::new();
            for found in Dir::read_from(directory).at(path)? {
                let found = found.at(path)?;
                let name = found.file_name().to_owned();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                self.check_name(path, &name)?;
                let mut file_type = found.file_type();
                if file_type == FileType::Unknown {
                    let host = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW).at(path)?;
                    file_type = FileType::from_raw_mode(host.st_mode);
                }
                if file_type == FileType::Directory {
                    left.push(name)
                } else {
                    files.push(name)
                }
                if files.len() == MAX_HELD_NAMES {
                    break;
                }
            }
            for name in &files {
                allow(Errno::NOENT, unlinkat(directory, name, AtFlags::empty())).at(path)?;
            }
            if files.len() < MAX_HELD_NAMES {
                break;
            }
        }
        Ok(Level { host, name, left })
    }
}

/// Opens the parent of a directory, and checks that it is still the one the directory was entered from.
pub(super) fn up(path: &VPath, directory: &OwnedFd, above: &HostStat) -> Result<OwnedFd, FsError> {
    let up = openat(directory, c"..", DIRECTORY, Mode::empty()).at(path)?;
    let host = fstat(&up).at(path)?;
    if (host.st_dev, host.st_ino) != (above.st_dev, above.st_ino) {
        return Err(FsError::io(path, std::io::ErrorKind::Other, "it was moved while it was being deleted"));
    }
    Ok(up)
}

/// A directory on the way down, with its remaining subdirectories.
struct Level {
    host: HostStat,
    name: Option<CString>,
    left: Vec<CString>,
}
