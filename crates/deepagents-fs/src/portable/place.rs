//! Path resolution, and checks whether a path may be changed.

use std::io::{self, ErrorKind, Read};

use cap_std::fs::Dir;

use super::Root;
use super::name::windows_alias;
use super::read::options;
use crate::permissions::AccessMode;
use crate::{FsError, VPath};

/// Maximum number of bytes read of a `.git` file.
const MAX_POINTER_BYTES: u64 = 4096;

/// A resolved path.
pub(super) struct Place {
    /// The deepest existing ancestor, or the path itself, with links resolved.
    pub(super) real: VPath,
    /// The components below it that do not exist.
    pub(super) missing: Vec<String>,
}

impl Place {
    /// Returns the whole resolved path.
    pub(super) fn shown(&self) -> VPath {
        self.missing.iter().fold(self.real.clone(), |path, name| path.child(name))
    }
}

/// Returns the path to pass to the system, relative to the root.
pub(super) fn relative(path: &VPath) -> &str {
    if path.is_root() { "." } else { path.relative() }
}

impl Root {
    /// Returns an error for names that Windows would take for another name.
    pub(super) fn check_names(path: &VPath) -> Result<(), FsError> {
        if !cfg!(windows) {
            return Ok(());
        }
        match path.components().find_map(windows_alias) {
            Some(reason) => Err(FsError::BadName { path: path.clone(), reason: reason.to_owned() }),
            None => Ok(()),
        }
    }

    /// Converts an I/O error about a path, without host paths in its message.
    pub(super) fn failed(&self, path: &VPath, error: &io::Error) -> FsError {
        #[cfg(unix)]
        if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            return FsError::LinkLoop(path.clone());
        }
        // Errors of the system have an OS error number; without one, `cap-std` has rejected a path that leaves the
        // directory.
        if error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
            return FsError::Outside(path.clone());
        }
        if error.kind() == ErrorKind::NotADirectory {
            return FsError::NotADirectory(self.file_on_the_way(path));
        }
        FsError::from_io(path, error)
    }

    /// Returns the first component on the way to a path that is not a directory.
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

    /// Resolves the links of a path as far as it exists.
    pub(super) fn locate(&self, path: &VPath) -> Result<Place, FsError> {
        Self::check_names(path)?;
        let (mut way, mut missing) = (path.clone(), Vec::new());
        loop {
            match self.directory.canonicalize(relative(&way)) {
                Ok(real) => {
                    missing.reverse();
                    let real = real.to_str().and_then(|real| VPath::try_from(real.to_owned()).ok());
                    let unnameable =
                        || FsError::io(path, ErrorKind::InvalidData, "a link leads to what has no name here");
                    return Ok(Place { real: real.ok_or_else(unnameable)?, missing });
                }
                // Nothing may be created at the target of a dangling link.
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

    /// Opens a directory by its resolved path. A link that was put on the way since then is an error, as what it leads
    /// to has not been checked.
    pub(super) fn open_real(&self, path: &VPath, real: &VPath) -> Result<Dir, FsError> {
        let root = self.directory.try_clone().map_err(|error| self.failed(path, &error))?;
        real.components().try_fold(root, |directory, name| self.enter(path, &directory, name))
    }

    /// Opens a directory in another one, unless it is a link.
    pub(super) fn enter(&self, path: &VPath, above: &Dir, name: &str) -> Result<Dir, FsError> {
        open_directly(above, name).map_err(|error| {
            match above.symlink_metadata(name).is_ok_and(|there| there.is_symlink()) {
                true => FsError::LeadsElsewhere(path.clone()),
                false => self.failed(path, &error),
            }
        })
    }

    pub(super) fn is_link(&self, path: &VPath) -> bool {
        self.directory.symlink_metadata(relative(path)).is_ok_and(|there| there.is_symlink())
    }

    /// Resolves the links of a path.
    pub(super) fn real_path(&self, path: &VPath) -> Result<VPath, FsError> {
        self.locate(path).map(|place| place.shown())
    }

    /// Returns an error if a path names or resolves to a protected place.
    pub(super) fn check_protected(&self, path: &VPath, real: &VPath) -> Result<(), FsError> {
        let denied = |path: &VPath| self.options.protected.decide(path).mode == AccessMode::Deny;
        let is_there = |path: &str| self.directory.symlink_metadata(path).is_ok();
        let pointed = || self.repositories().any(|repository| real.starts_with(&repository));
        if denied(path) || denied(real) || pointed() || self.options.protected.in_repository(real, is_there) {
            return Err(FsError::Protected(path.clone()));
        }
        Ok(())
    }

    /// Returns the targets of protected names at the root that are links, or files that point to a directory in git's
    /// format.
    pub(super) fn repositories(&self) -> impl Iterator<Item = VPath> {
        self.options.protected.denied_names().filter_map(|name| {
            let there = self.directory.symlink_metadata(name).ok()?;
            let target = if there.is_symlink() {
                name.to_owned()
            } else if there.is_file() {
                let mut content = String::new();
                let file = self.directory.open_with(name, &options()).ok()?;
                file.take(MAX_POINTER_BYTES).read_to_string(&mut content).ok()?;
                content.strip_prefix("gitdir:")?.trim().to_owned()
            } else {
                return None;
            };
            let real = self.directory.canonicalize(target).ok()?;
            VPath::try_from(real.to_str()?.to_owned()).ok()
        })
    }
}

#[cfg(unix)]
fn open_directly(above: &Dir, name: &str) -> io::Result<Dir> {
    use rustix::fs::{Mode, OFlags, openat};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(Dir::from_std_file(openat(above, name, flags, Mode::empty())?.into()))
}

#[cfg(not(unix))]
fn open_directly(above: &Dir, name: &str) -> io::Result<Dir> {
    if above.symlink_metadata(name)?.is_symlink() {
        return Err(ErrorKind::NotADirectory.into());
    }
    above.open_dir(name)
}
