//! Replacing files as a whole.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::sync::PoisonError;

use rustix::fd::OwnedFd;
use rustix::fs::{
    Access, AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, accessat, fchmod, fchown, fstat,
    futimens, linkat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::Root;
use super::open::{At, SAFE, failed, to_stat, version_of};
use super::resolve::Last;
use crate::{FsError, VPath, Version, WriteMode};

/// What a change is based on: the version of the file that was recorded, none where there was no file.
pub(super) type Based = Option<Version>;

impl Root {
    pub(super) fn write(&self, path: &VPath, data: &[u8], mode: &WriteMode) -> Result<Version, FsError> {
        if path.is_root() {
            return Err(FsError::IsDirectory(path.clone()));
        }
        let place = self.locate(path, Last::Create)?;
        let Some(name) = place.name.as_deref() else { return Err(FsError::IsDirectory(path.clone())) };
        let target = Target { path, directory: &place.directory, name };
        self.replace(&target, data, mode, None, None)
    }

    /// Puts a file in a place. `based` is the version that it must replace, `bits` are its permissions where it is new.
    pub(super) fn replace(
        &self,
        target: &Target<'_>,
        data: &[u8],
        mode: &WriteMode,
        based: Option<&Based>,
        bits: Option<u32>,
    ) -> Result<Version, FsError> {
        let path = target.path;
        // Before the work of writing; what counts is the check in `commit`.
        let before = target.there()?;
        mode.check(path, before.as_ref().map(version_of).as_ref())?;

        let temporary = Temporary::create(target)?;
        (&temporary.file).write_all(data).at(path)?;
        // Bits that lend the owner's rights to whoever runs the file go only with that owner.
        let mut lent = false;
        if let Some(before) = &before {
            let owner = (Uid::from_raw(before.st_uid), Gid::from_raw(before.st_gid));
            let mine = fstat(&temporary.file).at(path)?;
            // Only root may give files away; for others the file becomes their own.
            lent = (mine.st_uid, mine.st_gid) == (before.st_uid, before.st_gid)
                || fchown(&temporary.file, Some(owner.0), Some(owner.1)).is_ok();
        }
        let bits = before.as_ref().map(|before| before.st_mode & 0o7777).or(bits);
        if let Some(bits) = bits.map(|bits| if lent { bits } else { bits & 0o777 }) {
            fchmod(&temporary.file, Mode::from_raw_mode(bits)).at(path)?;
        }
        stamp(&temporary.file).at(path)?;
        if self.options.sync {
            temporary.file.sync_all().at(path)?;
        }
        let version = self.commit(target, temporary, mode, based)?;
        if self.options.sync {
            rustix::fs::fsync(target.directory).at(path)?;
        }
        Ok(version)
    }

    /// Puts the temporary file in place if the condition holds.
    fn commit(
        &self,
        target: &Target<'_>,
        mut temporary: Temporary<'_>,
        mode: &WriteMode,
        based: Option<&Based>,
    ) -> Result<Version, FsError> {
        let _commit = self.commit.lock().unwrap_or_else(PoisonError::into_inner);
        let there = target.there()?;
        let there = there.as_ref().map(version_of);
        mode.check(target.path, there.as_ref())?;
        if based.is_some_and(|based| *based != there) {
            return Err(FsError::Changed(target.path.clone()));
        }
        let rename = || renameat(target.directory, &temporary.name, target.directory, target.name);
        let placed = match mode {
            // A link is refused when the name is taken, also by another process.
            WriteMode::Create => {
                match linkat(target.directory, &temporary.name, target.directory, target.name, AtFlags::empty()) {
                    Ok(()) => unlinkat(target.directory, &temporary.name, AtFlags::empty()),
                    // A file system without hard links.
                    Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => rename(),
                    taken => taken,
                }
            }
            _ => rename(),
        };
        placed.at(target.path)?;
        temporary.pending = false;
        Ok(version_of(&fstat(&temporary.file).at(target.path)?))
    }
}

/// The place that a write goes to.
pub(super) struct Target<'a> {
    pub(super) path: &'a VPath,
    pub(super) directory: &'a OwnedFd,
    pub(super) name: &'a OsStr,
}

impl Target<'_> {
    /// The regular file that is there and may be written, if any.
    fn there(&self) -> Result<Option<rustix::fs::Stat>, FsError> {
        let host = match statat(self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(host) => host,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(self.path, errno)),
        };
        to_stat(&host).kind.require_file(self.path)?;
        // A rename needs no permission on the file it replaces; a write does.
        match accessat(self.directory, self.name, Access::WRITE_OK, AtFlags::EACCESS) {
            Ok(()) => Ok(Some(host)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed(self.path, errno)),
        }
    }
}

/// A file that is deleted again unless it is put in place.
struct Temporary<'a> {
    directory: &'a OwnedFd,
    name: OsString,
    file: File,
    pending: bool,
}

impl<'a> Temporary<'a> {
    fn create(target: &Target<'a>) -> Result<Self, FsError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | SAFE;
        loop {
            let name = OsString::from(format!(".tmp-{:016x}", fastrand::u64(..)));
            match openat(target.directory, &name, flags, Mode::from_raw_mode(0o644)) {
                Ok(file) => {
                    return Ok(Self { directory: target.directory, name, file: file.into(), pending: true });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(target.path, errno)),
            }
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if self.pending {
            let _ = unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}

/// Sets the time of the last change to now, to the nanosecond: the kernel's own stamps may be milliseconds apart, and
/// two versions within one would look the same when an inode is used again.
fn stamp(file: &File) -> Result<(), Errno> {
    let now = jiff::Timestamp::now();
    let modified = Timespec { tv_sec: now.as_second(), tv_nsec: now.subsec_nanosecond().into() };
    let keep = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    futimens(file, &Timestamps { last_access: keep, last_modification: modified })
}
