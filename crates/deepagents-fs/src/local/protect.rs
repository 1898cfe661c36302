//! Keeping protected places as they are.

use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;

use super::Root;
use super::open::{At, DIRECTORY, SAFE, failed, same_mount};
use super::resolve::{Last, Place};
use super::walk::Base;
use crate::permissions::AccessMode;
use crate::{FsError, VPath};

/// Bytes of a `.git` that is a file which are looked at.
const POINTER: usize = 4096;

impl Root {
    /// Refuses a path that names a protected place, before anything is made on the way to it.
    pub(super) fn check_named(&self, path: &VPath) -> Result<(), FsError> {
        match self.options.protected.decide(path).mode {
            AccessMode::Deny => Err(FsError::Protected(path.clone())),
            AccessMode::Allow | AccessMode::Ask => Ok(()),
        }
    }

    /// Refuses a path that leads to a protected place.
    pub(super) fn check_place(&self, path: &VPath, place: &Place) -> Result<(), FsError> {
        let real = place.shown();
        let denied = self.options.protected.decide(&real).mode == AccessMode::Deny;
        let is_there = |path: &str| statat(&self.fd, path, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let pointed = |real: &VPath| self.repositories().any(|repository| real.starts_with(&repository));
        if denied || pointed(&real) || self.options.protected.in_repository(&real, is_there) {
            return Err(FsError::Protected(path.clone()));
        }
        Ok(())
    }

    /// Whether a directory on the way may be made.
    pub(super) fn may_make(&self, name: &OsString) -> bool {
        self.options.protected.denied_name(&name.to_string_lossy()).is_none()
    }

    /// Where what is protected at the root leads, if it is a link, or a file that names a directory as git writes them.
    fn repositories(&self) -> impl Iterator<Item = VPath> {
        self.options.protected.denied_names().filter_map(|name| {
            let host = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let target = match FileType::from_raw_mode(host.st_mode) {
                FileType::Symlink => readlinkat(&self.fd, name, Vec::new()).ok()?.into_bytes(),
                FileType::RegularFile => {
                    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | SAFE;
                    let mut content = vec![0; POINTER];
                    let length =
                        rustix::io::read(openat(&self.fd, name, flags, Mode::empty()).ok()?, &mut content).ok()?;
                    content.truncate(length);
                    content.strip_prefix(b"gitdir:")?.trim_ascii().to_vec()
                }
                _ => return None,
            };
            let target = Path::new(std::ffi::OsStr::from_bytes(&target));
            let target = target.strip_prefix(&self.path).unwrap_or(target);
            let target = VPath::parse(target.to_str().filter(|_| target.is_relative())?).ok()?;
            self.walk(&target, Last::Follow).ok().map(|place| place.shown())
        })
    }

    /// Refuses to delete a directory that holds something protected, or something that is mounted there, whatever is in it
    /// that cannot be looked into.
    pub(super) fn check_tree(&self, path: &VPath, directory: impl AsFd) -> Result<(), FsError> {
        let fd = directory.as_fd().try_clone_to_owned().at(path)?;
        let base = Base { fd, path: path.clone(), kernel: self.options.kernel_resolution };
        let mut todo = vec![String::new()];
        while let Some(relative) = todo.pop() {
            let directory = match base.open(&relative, OFlags::RDONLY | OFlags::DIRECTORY) {
                Ok(directory) => directory,
                Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => continue,
                Err(errno) => return Err(failed(path, errno)),
            };
            if !same_mount(&directory, &base.fd).at(path)? {
                return Err(FsError::Fixed(path.clone()));
            }
            for entry in Dir::read_from(&directory).at(path)? {
                let entry = entry.at(path)?;
                let raw = entry.file_name();
                if matches!(raw.to_bytes(), b"." | b"..") {
                    continue;
                }
                self.check_name(path, raw)?;
                // What a name not in UTF-8 holds is looked at when it is deleted.
                if let Ok(name) = raw.to_str()
                    && matches!(entry.file_type(), FileType::Directory | FileType::Unknown)
                {
                    todo.push(if relative.is_empty() { name.to_owned() } else { format!("{relative}/{name}") });
                }
            }
        }
        Ok(())
    }

    /// Refuses to delete what has a protected name.
    pub(super) fn check_name(&self, path: &VPath, name: &CStr) -> Result<(), FsError> {
        let denied = self.options.protected.denied_name(&name.to_string_lossy()).is_some();
        if denied { Err(FsError::Protected(path.clone())) } else { Ok(()) }
    }

    /// Checks what is about to be deleted, with all below it.
    pub(super) fn check_removal(&self, path: &VPath, place: &Place) -> Result<(), FsError> {
        self.check_place(path, place)?;
        let Some(name) = &place.name else { return Err(FsError::Fixed(path.clone())) };
        match openat(&place.directory, name, DIRECTORY, Mode::empty()) {
            Ok(directory) if same_mount(&directory, &place.directory).at(path)? => self.check_tree(path, directory),
            // The root of what is mounted there is not in this tree.
            Ok(_) => Err(FsError::Fixed(path.clone())),
            // No directory, or not there.
            Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(path, errno)),
        }
    }
}
