//! Where a path leads, and whether it may be changed.

use std::io::{self, ErrorKind, Read};

use super::Root;
use super::name::windows_alias;
use super::read::options;
use crate::permissions::AccessMode;
use crate::{FsError, VPath};

/// Bytes of a `.git` that is a file which are looked at.
const POINTER: u64 = 4096;

/// What a path leads to.
pub(super) struct Place {
    /// The deepest directory or file on the way that is there, without links.
    pub(super) real: VPath,
    /// What is missing below it.
    pub(super) missing: Vec<String>,
}

impl Place {
    /// The whole path without links.
    pub(super) fn shown(&self) -> VPath {
        self.missing.iter().fold(self.real.clone(), |path, name| path.child(name))
    }
}

/// A path as the system is given it, relative to the root.
pub(super) fn relative(path: &VPath) -> &str {
    if path.is_root() { "." } else { path.relative() }
}

impl Root {
    /// Refuses names that the system would take for others.
    pub(super) fn check_names(path: &VPath) -> Result<(), FsError> {
        if !cfg!(windows) {
            return Ok(());
        }
        match path.components().find_map(windows_alias) {
            Some(reason) => Err(FsError::BadName { path: path.clone(), reason: reason.to_owned() }),
            None => Ok(()),
        }
    }

    /// The error for a failed call about a path, in words without host paths.
    pub(super) fn failed(&self, path: &VPath, error: &io::Error) -> FsError {
        #[cfg(unix)]
        if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            return FsError::LinkLoop(path.clone());
        }
        // What the system refuses has a number; this is `cap-std` that saw a path leave the directory.
        if error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
            return FsError::Outside(path.clone());
        }
        if error.kind() == ErrorKind::NotADirectory {
            return FsError::NotADirectory(self.file_on_the_way(path));
        }
        FsError::from_io(path, error)
    }

    /// The first on the way to a path that is no directory.
    fn file_on_the_way(&self, path: &VPath) -> VPath {
        let mut way = VPath::root();
        for name in path.components() {
            way = way.child(name);
            if self.directory.metadata(relative(&way)).is_ok_and(|there| !there.is_dir()) {
                return way;
            }
        }
        path.clone()
    }

    /// Where a path leads, through links, as far as it goes.
    pub(super) fn locate(&self, path: &VPath) -> Result<Place, FsError> {
        Self::check_names(path)?;
        let (mut way, mut missing) = (path.clone(), Vec::new());
        loop {
            match self.directory.canonicalize(relative(&way)) {
                Ok(real) => {
                    missing.reverse();
                    let real = real.to_str().and_then(|real| VPath::parse(real).ok());
                    let unnameable =
                        || FsError::io(path, ErrorKind::InvalidData, "a link leads to what has no name here");
                    return Ok(Place { real: real.ok_or_else(unnameable)?, missing });
                }
                // A link that leads to nothing is no place to make something in.
                Err(error) if error.kind() == ErrorKind::NotFound && !self.is_link(&way) => {
                    let (Some(parent), Some(name)) = (way.parent(), way.name()) else {
                        return Err(self.failed(path, &error));
                    };
                    missing.push(name.to_owned());
                    way = parent;
                }
                Err(error) => return Err(self.failed(path, &error)),
            }
        }
    }

    pub(super) fn is_link(&self, path: &VPath) -> bool {
        self.directory.symlink_metadata(relative(path)).is_ok_and(|there| there.is_symlink())
    }

    /// Where a path leads.
    pub(super) fn real_path(&self, path: &VPath) -> Result<VPath, FsError> {
        self.locate(path).map(|place| place.shown())
    }

    /// Refuses a path that names or leads to a protected place.
    pub(super) fn check_protected(&self, path: &VPath, real: &VPath) -> Result<(), FsError> {
        let denied = |path: &VPath| self.options.protected.decide(path).mode == AccessMode::Deny;
        let is_there = |path: &str| self.directory.symlink_metadata(path).is_ok();
        let pointed = || self.repositories().any(|repository| real.starts_with(&repository));
        if denied(path) || denied(real) || pointed() || self.options.protected.in_repository(real, is_there) {
            return Err(FsError::Protected(path.clone()));
        }
        Ok(())
    }

    /// Where what is protected at the root leads, if it is a link, or a file that names a directory as git writes them.
    fn repositories(&self) -> impl Iterator<Item = VPath> {
        self.options.protected.denied_names().filter_map(|name| {
            let there = self.directory.symlink_metadata(name).ok()?;
            let target = if there.is_symlink() {
                name.to_owned()
            } else if there.is_file() {
                let mut content = String::new();
                let file = self.directory.open_with(name, &options()).ok()?;
                file.take(POINTER).read_to_string(&mut content).ok()?;
                content.strip_prefix("gitdir:")?.trim().to_owned()
            } else {
                return None;
            };
            let real = self.directory.canonicalize(target).ok()?;
            VPath::parse(real.to_str()?).ok()
        })
    }
}
