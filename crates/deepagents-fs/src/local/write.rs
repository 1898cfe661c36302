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
use super::open::{SAFE, failed, to_stat, version_of};
use super::resolve::Last;
use crate::{FsError, Kind, VPath, Version, WriteMode};

impl Root {
    pub(super) fn write(&self, path: &VPath, data: &[u8], mode: &WriteMode) -> Result<Version, FsError> {
        if path.is_root() {
            return Err(FsError::IsDirectory { path: path.clone() });
        }
        let fail = |errno| failed(path, errno);
        let place = self.locate(path, Last::Create)?;
        let Some(name) = place.name.as_deref() else { return Err(FsError::IsDirectory { path: path.clone() }) };
        let target = Target { path, directory: &place.directory, name };
        // Before the work of writing; what counts is the check in `commit`.
        let before = target.there()?;
        mode.check(path, before.as_ref().map(version_of).as_ref())?;

        let temporary = Temporary::create(&target)?;
        let mut file = File::from(temporary.file.try_clone().map_err(|error| FsError::from_io(path, &error))?);
        file.write_all(data).map_err(|error| FsError::from_io(path, &error))?;
        if let Some(before) = &before {
            let mine = fstat(&temporary.file).map_err(fail)?;
            if (mine.st_uid, mine.st_gid) != (before.st_uid, before.st_gid) {
                // Only root may give files away; for others the file becomes their own.
                let _ = fchown(&temporary.file, Some(Uid::from_raw(before.st_uid)), Some(Gid::from_raw(before.st_gid)));
            }
            fchmod(&temporary.file, Mode::from_raw_mode(before.st_mode & 0o7777)).map_err(fail)?;
        }
        stamp(&temporary.file).map_err(fail)?;
        if self.options.sync {
            file.sync_all().map_err(|error| FsError::from_io(path, &error))?;
        }
        let version = self.commit(&target, temporary, mode)?;
        if self.options.sync {
            rustix::fs::fsync(&place.directory).map_err(fail)?;
        }
        Ok(version)
    }

    /// Puts the temporary file in place if the condition holds.
    fn commit(&self, target: &Target<'_>, temporary: Temporary<'_>, mode: &WriteMode) -> Result<Version, FsError> {
        let fail = |errno| failed(target.path, errno);
        let _commit = self.commit.lock().unwrap_or_else(PoisonError::into_inner);
        let there = target.there()?;
        mode.check(target.path, there.as_ref().map(version_of).as_ref())?;
        let file = if *mode == WriteMode::Create {
            // A link is refused when the name is taken, also by another process.
            match linkat(target.directory, &temporary.name, target.directory, target.name, AtFlags::empty()) {
                Ok(()) => temporary.discard()?,
                // A file system without hard links.
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => temporary.rename(target)?,
                Err(errno) => return Err(fail(errno)),
            }
        } else {
            temporary.rename(target)?
        };
        Ok(version_of(&fstat(&file).map_err(fail)?))
    }
}

/// The place that a write goes to.
struct Target<'a> {
    path: &'a VPath,
    directory: &'a OwnedFd,
    name: &'a OsStr,
}

impl Target<'_> {
    /// The regular file that is there and may be written, if any.
    fn there(&self) -> Result<Option<rustix::fs::Stat>, FsError> {
        let path = || self.path.clone();
        let host = match statat(self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(host) => host,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(self.path, errno)),
        };
        match to_stat(&host).kind {
            Kind::File => {}
            Kind::Directory => return Err(FsError::IsDirectory { path: path() }),
            Kind::Other => return Err(FsError::Special { path: path() }),
        }
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
    path: &'a VPath,
    name: OsString,
    file: OwnedFd,
    pending: bool,
}

impl<'a> Temporary<'a> {
    fn create(target: &Target<'a>) -> Result<Self, FsError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | SAFE;
        loop {
            let name = OsString::from(format!(".tmp-{:016x}", fastrand::u64(..)));
            match openat(target.directory, &name, flags, Mode::from_raw_mode(0o644)) {
                Ok(file) => {
                    return Ok(Self { directory: target.directory, path: target.path, name, file, pending: true });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(target.path, errno)),
            }
        }
    }

    fn rename(mut self, target: &Target<'_>) -> Result<OwnedFd, FsError> {
        renameat(self.directory, &self.name, target.directory, target.name)
            .map_err(|errno| failed(self.path, errno))?;
        self.pending = false;
        self.handle()
    }

    /// Takes the temporary name away and keeps the file, which has another name by now.
    fn discard(mut self) -> Result<OwnedFd, FsError> {
        self.pending = false;
        unlinkat(self.directory, &self.name, AtFlags::empty()).map_err(|errno| failed(self.path, errno))?;
        self.handle()
    }

    fn handle(&self) -> Result<OwnedFd, FsError> {
        self.file.try_clone().map_err(|error| FsError::from_io(self.path, &error))
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
fn stamp(file: &OwnedFd) -> Result<(), Errno> {
    let now = jiff::Timestamp::now();
    let modified = Timespec { tv_sec: now.as_second(), tv_nsec: now.subsec_nanosecond().into() };
    let keep = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    futimens(file, &Timestamps { last_access: keep, last_modification: modified })
}
