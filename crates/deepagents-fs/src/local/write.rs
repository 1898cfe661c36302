//! Atomic file replacement.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;

use rustix::fd::OwnedFd;
use rustix::fs::{
    Access, AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, accessat, fchmod, fchown, fstat, futimens,
    statat,
};
use rustix::io::Errno;

use super::Root;
use super::open::{At, failed, to_stat, version_of};
use super::resolve::Last;
use super::temporary::Temporary;
use crate::attributes;
use crate::permissions::AccessMode;
use crate::sandbox::appeared;
use crate::{FsError, VPath, Version, WriteMode};

/// The recorded version that a change is based on; `None` if there was no file.
pub(super) type Based = Option<Version>;

impl Root {
    pub(super) fn write(&self, path: &VPath, data: &[u8], mode: &WriteMode) -> Result<Version, FsError> {
        if path.is_root() {
            return Err(FsError::IsDirectory(path.clone()));
        }
        self.check_named(path)?;
        let place = self.locate(path, Last::Create, self.links)?;
        let written = self.check_place(path, &place).and_then(|()| {
            let name = place.name.as_deref().ok_or_else(|| FsError::IsDirectory(path.clone()))?;
            let real = place.shown();
            let modified = jiff::Timestamp::now();
            let (directory, altered) = (&place.directory, &Cell::default());
            let target = Target { path, real: &real, directory, name, modified, altered };
            self.replace(&target, data, mode, None, None)
        });
        if written.is_err() {
            self.leave(&place);
        }
        written
    }

    /// Replaces or creates a file. `based` is the version it must replace; `bits` are the permissions of a new file.
    pub(super) fn replace(
        &self,
        target: &Target<'_>,
        data: &[u8],
        mode: &WriteMode,
        based: Option<&Based>,
        bits: Option<u32>,
    ) -> Result<Version, FsError> {
        let path = target.path;
        // Fails early, before the content is written; the check in `commit` is the authoritative one.
        let before = target.existing_file()?;
        mode.check(path, before.as_ref().map(version_of).as_ref())?;

        // Drop the set-uid and set-gid bits: they were granted to the old content.
        let bits = before.as_ref().map(|before| before.st_mode).or(bits).map(|bits| bits & 0o1777);
        // The new content may be as private as the old, so nobody else may read it until the file has the old one's
        // mode.
        let temporary = Temporary::create(target, Mode::from_raw_mode(if bits.is_some() { 0o600 } else { 0o644 }))?;
        (&temporary.file).write_all(data).at(path)?;
        let has_group = match &before {
            Some(before) => give(&temporary.file, before).at(path)?,
            None => true,
        };
        // Copy the ACL before setting the mode: with an ACL, the group bits are its mask, and without it they would
        // open the file to the group.
        let kept = before.is_none()
            || (attributes::copy(&attributes::path_in(target.directory, target.name), &temporary.file) && has_group);
        if let Some(bits) = bits {
            // Nobody may gain access that they did not have. `commit` writes in place instead where it can.
            let bits = if kept { bits } else { bits & !0o070 };
            fchmod(&temporary.file, Mode::from_raw_mode(bits)).at(path)?;
        }
        stamp(&temporary.file, target.modified).at(path)?;
        if self.options.sync {
            temporary.file.sync_all().at(path)?;
        }
        let version = self.commit(target, temporary, kept, data, mode, based)?;
        if self.options.sync {
            rustix::fs::fsync(target.directory).at(path)?;
        }
        Ok(version)
    }

    /// Puts the temporary file in place if the condition holds. `kept` says that the access rights are the same.
    fn commit(
        &self,
        target: &Target<'_>,
        temporary: Temporary<'_>,
        kept: bool,
        data: &[u8],
        mode: &WriteMode,
        based: Option<&Based>,
    ) -> Result<Version, FsError> {
        let _turn = self.turns.take(target.path, target.directory)?;
        let there = target.existing_file()?;
        let version = there.as_ref().map(version_of);
        mode.check(target.path, version.as_ref())?;
        if based.is_some_and(|based| *based != version) {
            return Err(FsError::Changed(target.path.clone()));
        }
        let conditional = based.is_some() || *mode != WriteMode::Overwrite;
        let mut closed = false;
        let written = appeared::change(&self.fd, target.real, |in_place| {
            closed = in_place;
            match &there {
                // A file with other hard links may have some outside the workspace, so it is replaced.
                Some(there) if in_place || (!kept && there.st_nlink == 1) => self.write_in_place(target, there, data),
                there => put(target, temporary, there.as_ref(), conditional),
            }
        })?;
        if closed || self.options.protected.decide(target.real).mode == AccessMode::Ask {
            appeared::approve(target.directory, target.name);
        }
        Ok(written)
    }
}

/// Gives a file the owner and group of another. Returns whether it has the group.
fn give(file: &File, before: &rustix::fs::Stat) -> Result<bool, Errno> {
    let (user, group) = (Uid::from_raw(before.st_uid), Gid::from_raw(before.st_gid));
    let mine = fstat(file)?;
    if (mine.st_uid, mine.st_gid) == (before.st_uid, before.st_gid) {
        return Ok(true);
    }
    // Only root may change a file's owner; for others, set at least the group.
    if fchown(file, Some(user), Some(group)).is_err() && mine.st_gid != before.st_gid {
        return Ok(fchown(file, None, Some(group)).is_ok());
    }
    Ok(true)
}

/// Moves the temporary file to its target.
fn put(
    target: &Target<'_>,
    mut temporary: Temporary<'_>,
    there: Option<&rustix::fs::Stat>,
    conditional: bool,
) -> Result<Version, FsError> {
    match there {
        Some(there) if conditional => temporary.exchange(target, there)?,
        None if conditional => temporary.link(target.path, target.name)?,
        _ => temporary.rename(target.path, target.name)?,
    }
    target.altered.set(true);
    Ok(version_of(&fstat(&temporary.file).at(target.path)?))
}

/// Target of a write.
pub(super) struct Target<'a> {
    pub(super) path: &'a VPath,
    /// The resolved path.
    pub(super) real: &'a VPath,
    pub(super) directory: &'a OwnedFd,
    pub(super) name: &'a OsStr,
    /// Modification time to set.
    pub(super) modified: jiff::Timestamp,
    /// Set while the file holds anything but its previous content, so that a failed write tells what it left.
    pub(super) altered: &'a Cell<bool>,
}

impl Target<'_> {
    /// Returns the metadata of the existing writable regular file, if there is one.
    fn existing_file(&self) -> Result<Option<rustix::fs::Stat>, FsError> {
        let host = match statat(self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(host) => host,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(self.path, errno)),
        };
        to_stat(&host).kind.require_file(self.path)?;
        // Renaming over a file needs no permission on it, so check that here as a plain write would.
        match accessat(self.directory, self.name, Access::WRITE_OK, AtFlags::EACCESS) {
            Ok(()) => Ok(Some(host)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed(self.path, errno)),
        }
    }
}

/// Sets the modification time in nanoseconds. The kernel's own timestamps may be milliseconds apart, and two versions
/// within one tick would look the same if an inode is reused.
pub(super) fn stamp(file: &File, now: jiff::Timestamp) -> Result<(), Errno> {
    let modified = Timespec { tv_sec: now.as_second(), tv_nsec: now.subsec_nanosecond().into() };
    let keep = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    futimens(file, &Timestamps { last_access: keep, last_modification: modified })
}
