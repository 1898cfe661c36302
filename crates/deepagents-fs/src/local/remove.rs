//! Deletes files and directory trees.

use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, openat, statat, unlinkat};
use rustix::io::Errno;

use super::Root;
use super::open::{At, DIRECTORY, entries, failed, same_mount, version_of};
use super::resolve::{Last, Place};
use super::tree::walk_tree;
use crate::sandbox::appeared::forget;
use crate::{FsError, VPath, Version};

/// Maximum number of file names held while a directory is emptied.
const MAX_HELD_NAMES: usize = 50_000;

impl Root {
    pub(super) fn remove(&self, path: &VPath) -> Result<(), FsError> {
        self.check_named(path)?;
        let place = self.locate(path, Last::NoFollow, self.links)?;
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
        let removed = Cell::new(0);
        let remove = |above: &OwnedFd, name: &CStr, flags| match unlinkat(above, name, flags) {
            Ok(()) => {
                removed.update(|number| number + 1);
                Ok(())
            }
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(path, errno)),
        };
        walk_tree(path, top, |directory| self.remove_files(path, directory, remove), remove)
            .and_then(|()| unlinkat(&place.directory, name, AtFlags::REMOVEDIR).at(path))
            .map_err(|error| match removed.get() {
                0 => error,
                removed => FsError::PartlyDeleted { removed, source: Box::new(error) },
            })?;
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
        let _turn = self.turns.take(path, directory)?;
        let host = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).at(path)?;
        if based.is_some_and(|based| *based != version_of(&host)) {
            return Err(FsError::Changed(path.clone()));
        }
        unlinkat(directory, name, AtFlags::empty()).at(path)
    }

    /// Deletes the non-directories in a directory and returns the names of its subdirectories.
    fn remove_files(
        &self,
        path: &VPath,
        directory: &OwnedFd,
        remove: impl Fn(&OwnedFd, &CStr, AtFlags) -> Result<(), FsError>,
    ) -> Result<Vec<CString>, FsError> {
        // A directory with millions of files is processed in parts.
        loop {
            let (mut directories, mut files) = (Vec::new(), Vec::new());
            for found in entries(Dir::read_from(directory).at(path)?) {
                let found = found.at(path)?;
                let name = found.file_name().to_owned();
                self.check_name(path, &name)?;
                let mut file_type = found.file_type();
                if file_type == FileType::Unknown {
                    let host = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW).at(path)?;
                    file_type = FileType::from_raw_mode(host.st_mode);
                }
                if file_type == FileType::Directory {
                    directories.push(name)
                } else {
                    files.push(name)
                }
                if files.len() == MAX_HELD_NAMES {
                    break;
                }
            }
            for name in &files {
                remove(directory, name, AtFlags::empty())?;
            }
            if files.len() < MAX_HELD_NAMES {
                return Ok(directories);
            }
        }
    }
}
