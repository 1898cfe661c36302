//! Enforces protected places.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat as HostStat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::open::{At, DIRECTORY, SAFE, failed, same_mount};
use super::remove::up;
use super::resolve::{Last, Place};
use super::{Links, Root};
use crate::permissions::{AccessMode, Place as Protected, UserGit, leads, run_from};
use crate::{FsError, VPath};

/// Maximum number of bytes read of a `.git` file.
const MAX_POINTER_BYTES: usize = 4096;

impl Root {
    /// Returns an error if a path names a protected place, before anything is created on the way to it.
    pub(super) fn check_named(&self, path: &VPath) -> Result<(), FsError> {
        match self.options.protected.decide(path).mode {
            AccessMode::Deny => Err(FsError::Protected(path.clone())),
            AccessMode::Allow | AccessMode::Ask => Ok(()),
        }
    }

    /// Returns an error if a path resolves to a protected place.
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

    /// Returns whether a person must be asked about a path that no protected place names. That is so if a protected
    /// place leads by links to the path, to an ancestor of it or to something below it, or if a repository above makes
    /// git run or include it.
    pub(super) fn is_asked_by_place(&self, path: &VPath) -> bool {
        self.is_asked_by_link(path) || self.is_run_by_git(path)
    }

    fn is_run_by_git(&self, path: &VPath) -> bool {
        if self.options.protected.denied_name(".git").is_none() {
            return false;
        }
        let is_there = |git: &VPath| statat(&self.fd, git.relative(), AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let repositories: Vec<VPath> =
            path.ancestors().map(|above| above.child(".git")).filter(|git| is_there(git)).collect();
        let user = if repositories.is_empty() { UserGit::default() } else { UserGit::read() };
        repositories.iter().any(|git| {
            let named = run_from(&self.path, Path::new(git.relative()), &user);
            let named = named.iter().filter_map(|path| VPath::parse(path.to_str()?).ok());
            named.map(Protected::At).any(|place| place.covers(path))
        })
    }

    fn is_asked_by_link(&self, path: &VPath) -> bool {
        let asked = self.options.protected.iter().filter(|place| place.mode == AccessMode::Ask);
        let mut led = asked.flat_map(|place| match &place.place {
            Protected::At(at) => leads(&self.path, at),
            Protected::Named(_) => BTreeSet::new(),
        });
        led.any(|place| Protected::At(place).covers(path))
    }

    /// Returns whether a directory with this name may be created on the way to a path.
    pub(super) fn may_make(&self, name: &OsString) -> bool {
        self.options.protected.denied_name(&name.to_string_lossy()).is_none()
    }

    /// Returns the targets of protected names at the root that are links, or files that point to a directory in git's
    /// format.
    fn repositories(&self) -> impl Iterator<Item = VPath> {
        self.options.protected.denied_names().filter_map(|name| {
            let host = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let target = match FileType::from_raw_mode(host.st_mode) {
                FileType::Symlink => readlinkat(&self.fd, name, Vec::new()).ok()?.into_bytes(),
                FileType::RegularFile => {
                    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | SAFE;
                    let mut content = vec![0; MAX_POINTER_BYTES];
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
            self.walk_by(&target, Last::Follow, Links::Follow).ok().map(|place| place.shown())
        })
    }

    /// Returns an error if a directory to be deleted contains anything protected or mounted, or anything that cannot be
    /// examined. Only one directory is open at a time, and only names are held in memory.
    pub(super) fn check_tree(&self, path: &VPath, top: OwnedFd) -> Result<(), FsError> {
        let mut levels = vec![self.directories(path, &top)?];
        let mut current = top;
        while let Some((_, left)) = levels.last_mut() {
            if let Some(name) = left.pop() {
                let next = match openat(&current, &name, DIRECTORY, Mode::empty()) {
                    Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => continue,
                    next => next.at(path)?,
                };
                if !same_mount(&next, &current).at(path)? {
                    return Err(FsError::Fixed(path.clone()));
                }
                levels.push(self.directories(path, &next)?);
                current = next;
                continue;
            }
            levels.pop();
            let Some((above, _)) = levels.last() else { break };
            current = up(path, &current, above)?;
        }
        Ok(())
    }

    /// Returns the metadata of a directory and the names of its subdirectories, or an error if it contains anything
    /// protected.
    fn directories(&self, path: &VPath, directory: &OwnedFd) -> Result<(HostStat, Vec<CString>), FsError> {
        let mut names = Vec::new();
        for entry in Dir::read_from(directory).at(path)? {
            let entry = entry.at(path)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.check_name(path, name)?;
            if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                names.push(name.to_owned());
            }
        }
        Ok((fstat(directory).at(path)?, names))
    }

    /// Returns an error if a file to be deleted has a protected name.
    pub(super) fn check_name(&self, path: &VPath, name: &CStr) -> Result<(), FsError> {
        let denied = self.options.protected.denied_name(&name.to_string_lossy()).is_some();
        if denied { Err(FsError::Protected(path.clone())) } else { Ok(()) }
    }

    /// Checks that a path may be deleted with everything below it.
    pub(super) fn check_removal(&self, path: &VPath, place: &Place) -> Result<(), FsError> {
        self.check_place(path, place)?;
        let Some(name) = &place.name else { return Err(FsError::Fixed(path.clone())) };
        match openat(&place.directory, name, DIRECTORY, Mode::empty()) {
            Ok(directory) if same_mount(&directory, &place.directory).at(path)? => self.check_tree(path, directory),
            // A mount point is not part of this tree.
            Ok(_) => Err(FsError::Fixed(path.clone())),
            // Not a directory, or missing.
            Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(path, errno)),
        }
    }
}
