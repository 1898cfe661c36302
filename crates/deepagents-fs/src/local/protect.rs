//! Enforces protected places.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use super::open::{At, DIRECTORY, SAFE, entries, failed, same_mount};
use super::resolve::{Last, Place};
use super::tree::walk_tree;
use super::{Links, Root};
use crate::permissions::{
    AccessMode, Place as Protected, UserGit, leads, repositories_above, repository_entry, run_from,
};
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

    /// Returns whether a path that no protected place names may be changed. It may not if it leads to a protected place
    /// or into a repository. A person must be asked if a protected place leads by links to the path, to an ancestor of
    /// it or to something below it, or if a repository above makes git run or include it.
    pub(super) fn access_by_place(&self, path: &VPath) -> AccessMode {
        let leads = self.walk(path, Last::Follow, self.links);
        match leads {
            Ok(place) if self.check_place(path, &place).is_err() => AccessMode::Deny,
            _ if self.is_asked_by_link(path) || self.is_run_by_git(path) => AccessMode::Ask,
            _ => AccessMode::Allow,
        }
    }

    fn is_run_by_git(&self, path: &VPath) -> bool {
        if self.options.protected.denied_name(".git").is_none() {
            return false;
        }
        let is_there = |git: &VPath| statat(&self.fd, git.relative(), AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let own = path.ancestors().map(|above| above.child(".git")).filter(|git| is_there(git));
        let own = own.map(|git| PathBuf::from(git.relative()));
        let repositories: Vec<PathBuf> = own.chain(repositories_above(&self.path)).collect();
        let user = if repositories.is_empty() { UserGit::default() } else { UserGit::read() };
        repositories.iter().any(|git| {
            let named = run_from(&self.path, git, &user);
            let named = named.iter().filter_map(|path| VPath::try_from(path.to_str()?.to_owned()).ok());
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
                FileType::Symlink => VPath::root().child(name),
                FileType::RegularFile => {
                    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | SAFE;
                    let mut content = vec![0; MAX_POINTER_BYTES];
                    let length =
                        rustix::io::read(openat(&self.fd, name, flags, Mode::empty()).ok()?, &mut content).ok()?;
                    content.truncate(length);
                    let target = Path::new(OsStr::from_bytes(content.strip_prefix(b"gitdir:")?.trim_ascii()));
                    let target = target.strip_prefix(&self.path).unwrap_or(target);
                    VPath::parse(target.to_str().filter(|_| target.is_relative())?).ok()?
                }
                _ => return None,
            };
            self.walk(&target, Last::Follow, Links::Follow).ok().map(|place| place.shown())
        })
    }

    /// Returns the names of a directory's subdirectories, or an error if it contains anything protected.
    fn check_names_in(&self, path: &VPath, directory: &OwnedFd) -> Result<Vec<CString>, FsError> {
        let (mut names, mut marks) = (Vec::new(), Vec::new());
        for entry in entries(Dir::read_from(directory).at(path)?) {
            let entry = entry.at(path)?;
            let name = entry.file_name();
            self.check_name(path, name)?;
            marks.extend(name.to_str().ok().and_then(repository_entry));
            if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                names.push(name.to_owned());
            }
        }
        if self.options.protected.holds_repository(&marks) {
            return Err(FsError::Protected(path.clone()));
        }
        Ok(names)
    }

    /// Returns an error if a file to be deleted has a protected name.
    pub(super) fn check_name(&self, path: &VPath, name: &CStr) -> Result<(), FsError> {
        let denied = self.options.protected.denied_name(&name.to_string_lossy()).is_some();
        if denied { Err(FsError::Protected(path.clone())) } else { Ok(()) }
    }

    /// Returns an error if a path or anything below it is protected or mounted, or cannot be examined.
    pub(super) fn check_removal(&self, path: &VPath, place: &Place) -> Result<(), FsError> {
        self.check_place(path, place)?;
        let Some(name) = &place.name else { return Err(FsError::Fixed(path.clone())) };
        let real = place.shown();
        if self.repositories().any(|repository| repository.starts_with(&real)) {
            return Err(FsError::Protected(path.clone()));
        }
        match openat(&place.directory, name, DIRECTORY, Mode::empty()) {
            Ok(directory) if same_mount(&directory, &place.directory).at(path)? => {
                walk_tree(path, directory, |directory| self.check_names_in(path, directory), |_, _, _| Ok(()))
            }
            // A mount point is not part of this tree.
            Ok(_) => Err(FsError::Fixed(path.clone())),
            // Not a directory, or missing.
            Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(path, errno)),
        }
    }
}
