//! Atomic file replacement and deletion.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::PoisonError;
use std::time::SystemTime;

use cap_std::fs::{Dir, Metadata, OpenOptions};

use super::read::{to_stat, version_of};
use super::{COMMIT, Root};
#[cfg(unix)]
use crate::attributes;
use crate::permissions::repository_entry;
use crate::{FsError, VPath, Version, WriteMode};

/// Maximum nesting depth of a directory tree that can be deleted.
const MAX_DEPTH: usize = 1_000;

impl Root {
    pub(super) fn write(&self, path: &VPath, data: &[u8], mode: &WriteMode) -> Result<Version, FsError> {
        if path.is_root() {
            return Err(FsError::IsDirectory(path.clone()));
        }
        let place = self.locate(path)?;
        let real = place.shown();
        self.check_protected(path, &real)?;
        let (Some(parent), Some(name)) = (real.parent(), real.name()) else {
            return Err(FsError::IsDirectory(path.clone()));
        };
        let missing = place.missing.split_last().map(|(_, above)| above).unwrap_or_default();
        let mut directory = self.open_real(path, if place.missing.is_empty() { &parent } else { &place.real })?;
        let mut made = Vec::new();
        let written = missing.iter().try_for_each(|name| self.make(path, &mut directory, name, &mut made));
        let written = written.and_then(|()| self.replace(path, &directory, name, data, mode));
        if written.is_err() {
            // This removes only empty directories; what others have put there in the meantime stays.
            made.iter().rev().for_each(|(above, name): &(Dir, &str)| drop(above.remove_dir(name)));
        }
        written
    }

    /// Makes a directory in another one, and enters it.
    fn make<'a>(
        &self,
        path: &VPath,
        directory: &mut Dir,
        name: &'a str,
        made: &mut Vec<(Dir, &'a str)>,
    ) -> Result<(), FsError> {
        match directory.create_dir(name) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(self.failed(path, &error)),
            _ => {}
        }
        let below = self.enter(path, directory, name)?;
        made.push((std::mem::replace(directory, below), name));
        Ok(())
    }

    fn replace(
        &self,
        path: &VPath,
        directory: &Dir,
        name: &str,
        data: &[u8],
        mode: &WriteMode,
    ) -> Result<Version, FsError> {
        let failed = |error: io::Error| self.failed(path, &error);
        // Fails early, before the content is written; the check below is the authoritative one.
        let before = self.existing_file(path, directory, name)?;
        mode.check(path, before.as_ref().map(version_of).as_ref())?;
        let replaced = before.as_ref().map(|before| (name, before));
        let temporary = Temporary::write(directory, data, replaced, self.options.sync).map_err(failed)?;
        let _commit = COMMIT.lock().unwrap_or_else(PoisonError::into_inner);
        let there = self.existing_file(path, directory, name)?;
        mode.check(path, there.as_ref().map(version_of).as_ref())?;
        if there.is_none() && *mode != WriteMode::Overwrite {
            temporary.take_free(name).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists if *mode == WriteMode::Create => FsError::AlreadyExists(path.clone()),
                ErrorKind::AlreadyExists => FsError::Changed(path.clone()),
                _ => failed(error),
            })?;
        } else {
            directory.rename(&temporary.name, directory, name).map_err(failed)?;
        }
        drop(temporary);
        Ok(version_of(&directory.symlink_metadata(name).map_err(failed)?))
    }

    /// Returns the metadata of the existing writable regular file, if there is one.
    fn existing_file(&self, path: &VPath, directory: &Dir, name: &str) -> Result<Option<Metadata>, FsError> {
        let host = match directory.symlink_metadata(name) {
            Ok(host) => host,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(path, &error)),
        };
        to_stat(&host).kind.require_file(path)?;
        // Renaming over a file needs no permission on it, so check that here as a plain write would.
        if host.permissions().readonly() {
            return Err(FsError::io(path, ErrorKind::PermissionDenied, "permission denied"));
        }
        Ok(Some(host))
    }

    pub(super) fn remove(&self, path: &VPath) -> Result<(), FsError> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(FsError::Fixed(path.clone()));
        };
        Self::check_names(path)?;
        let above = self.locate(&parent)?;
        if !above.missing.is_empty() {
            return Err(FsError::NotFound(path.clone()));
        }
        let failed = |error: io::Error| self.failed(path, &error);
        let directory = self.open_real(path, &above.real)?;
        let host = directory.symlink_metadata(name).map_err(failed)?;
        let real = above.real.child(name);
        self.check_protected(path, &real)?;
        if self.repositories().any(|repository| repository.starts_with(&real)) {
            return Err(FsError::Protected(path.clone()));
        }
        if !host.is_dir() {
            let _commit = COMMIT.lock().unwrap_or_else(PoisonError::into_inner);
            return directory.remove_file(name).map_err(failed);
        }
        let before = self.check_tree(path, &directory, name)?;
        directory.remove_dir_all(name).map_err(|error| {
            let left = self.check_tree(path, &directory, name).unwrap_or(before);
            match before.saturating_sub(left) {
                0 => failed(error),
                removed => FsError::PartlyDeleted { removed, source: Box::new(failed(error)) },
            }
        })
    }

    /// Returns the number of entries in a directory to be deleted, or an error if it contains anything protected or
    /// mounted.
    fn check_tree(&self, path: &VPath, above: &Dir, name: &str) -> Result<u64, FsError> {
        let failed = |error: io::Error| self.failed(path, &error);
        let enter = |above: &Dir, directory: Dir| match is_mounted(&directory, above) {
            Ok(false) => Ok(directory),
            // A mount point is not part of this tree.
            Ok(true) => Err(FsError::Fixed(path.clone())),
            Err(error) => Err(failed(error)),
        };
        let mut number = 0;
        // One handle per level: a directory may hold more directories than a process may open.
        let mut open = vec![(enter(above, above.open_dir(name).map_err(failed)?)?, None::<Vec<OsString>>)];
        while let Some((directory, todo)) = open.last_mut() {
            let Some(names) = todo else {
                let (mut marks, mut names) = (Vec::new(), Vec::new());
                for found in directory.entries().map_err(failed)? {
                    let found = found.map_err(failed)?;
                    number += 1;
                    let name = found.file_name();
                    marks.extend(name.to_str().and_then(repository_entry));
                    if self.options.protected.denied_name(&name.to_string_lossy()).is_some() {
                        return Err(FsError::Protected(path.clone()));
                    }
                    if found.file_type().map_err(failed)?.is_dir() {
                        names.push(name);
                    }
                }
                if self.options.protected.holds_repository(&marks) {
                    return Err(FsError::Protected(path.clone()));
                }
                *todo = Some(names);
                continue;
            };
            let Some(name) = names.pop() else {
                open.pop();
                continue;
            };
            let below = enter(directory, directory.open_dir(&name).map_err(failed)?)?;
            if open.len() > MAX_DEPTH {
                return Err(FsError::io(path, ErrorKind::Other, "it is nested too deep to be deleted at once"));
            }
            open.push((below, None));
        }
        Ok(number)
    }
}

/// Returns whether something is mounted at a directory.
#[cfg(unix)]
fn is_mounted(directory: &Dir, above: &Dir) -> io::Result<bool> {
    Ok(!crate::local::same_mount(directory, above)?)
}

#[cfg(not(unix))]
fn is_mounted(_: &Dir, _: &Dir) -> io::Result<bool> {
    Ok(false)
}

/// Temporary file that will replace another; removed on drop unless it was renamed.
struct Temporary<'a> {
    directory: &'a Dir,
    name: String,
}

impl<'a> Temporary<'a> {
    fn write(directory: &'a Dir, data: &[u8], replaced: Option<(&str, &Metadata)>, sync: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // The new content may be as private as the old, so nobody else may read it until the file has the old one's
        // permissions.
        #[cfg(unix)]
        if replaced.is_some() {
            use cap_std::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        let temporary = Self { directory, name: format!(".{:016x}.tmp", fastrand::u64(..)) };
        let mut file = directory.open_with(&temporary.name, &options)?.into_std();
        file.write_all(data)?;
        if let Some((name, before)) = replaced {
            keep_access(directory, name, before, &file)?;
        }
        // Set nanoseconds explicitly: two versions within one tick of the system clock would look the same.
        file.set_modified(SystemTime::from(jiff::Timestamp::now()))?;
        if sync {
            file.sync_all()?;
        }
        Ok(temporary)
    }

    /// Gives it a name that no file has yet.
    fn take_free(&self, name: &str) -> io::Result<()> {
        // Unlike a rename, a hard link fails if the target exists.
        match self.directory.hard_link(&self.name, self.directory, name) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {}
            linked => return linked,
        }
        // Most likely the file system has no hard links, so an empty file takes the name first.
        self.directory.open_with(name, OpenOptions::new().write(true).create_new(true))?;
        let renamed = self.directory.rename(&self.name, self.directory, name);
        if renamed.is_err() {
            let _ = self.directory.remove_file(name);
        }
        renamed
    }
}

/// Gives a file the access rights of the one it replaces, except for set-user-ID and set-group-ID bits, which were
/// granted to the old content.
#[cfg(unix)]
fn keep_access(directory: &Dir, name: &str, before: &Metadata, file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    use cap_std::fs::MetadataExt;

    let has_group = attributes::give_group(file, before.gid());
    let kept = attributes::copy(&attributes::path_in(directory, name.as_ref()), file) && has_group;
    // Without its group and its access control list, the group bits would open the file to others.
    let bits = before.mode() & if kept { 0o1777 } else { 0o1707 };
    file.set_permissions(std::fs::Permissions::from_mode(bits))
}

#[cfg(not(unix))]
fn keep_access(_: &Dir, _: &str, before: &Metadata, file: &File) -> io::Result<()> {
    file.set_permissions(before.permissions().into_std(file)?)
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // Fails harmlessly if the file was renamed.
        let _ = self.directory.remove_file(&self.name);
    }
}
