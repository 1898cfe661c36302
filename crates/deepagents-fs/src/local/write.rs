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
use super::keeping::{Keeping, Seen, by_agent, not_kept};
use super::open::{SAFE, failed, to_stat, version_of};
use super::resolve::{Last, real_of};
use crate::kept::FileVersion;
use crate::{FsError, Kind, VPath, Version, WriteMode};

/// How often a change is begun anew when somebody changes the file in between.
const MAX_RACES: usize = 16;

/// What a change is based on: the version of the file that was kept, none where there was no file.
pub(super) type Based = Option<Version>;

impl Root {
    pub(super) fn write(&self, path: &VPath, data: &[u8], mode: &WriteMode) -> Result<Version, FsError> {
        if path.is_root() {
            return Err(FsError::IsDirectory { path: path.clone() });
        }
        let place = self.locate(path, Last::Create)?;
        let Some(name) = place.name.as_deref() else { return Err(FsError::IsDirectory { path: path.clone() }) };
        let target = Target { path, directory: &place.directory, name };
        self.replace(&target, data, mode, None, None)
    }

    /// Writes a file and keeps what it held; returns the number of the change as well.
    pub(super) fn write_kept(
        &self,
        path: &VPath,
        data: &[u8],
        mode: &WriteMode,
        keeping: Keeping<'_>,
    ) -> Result<(Version, u64), FsError> {
        let _held = keeping.store.shared().map_err(|error| not_kept(path, &error))?;
        for _ in 0..MAX_RACES {
            let place = self.walk(path, Last::Follow)?;
            let real = real_of(path, &place)?;
            let is_directory = || FsError::IsDirectory { path: path.clone() };
            let name = place.name.as_deref().ok_or_else(is_directory)?;
            let seen = if place.missing() == 0 {
                self.look(path, &place.directory, name, Some(keeping.store))?
            } else {
                Seen { version: FileVersion::Absent, host: None }
            };
            match &seen.version {
                FileVersion::Directory { .. } => return Err(is_directory()),
                FileVersion::Link { .. } => continue,
                _ => mode.check(path, seen.host.as_ref())?,
            }
            let mut made: Vec<VPath> = real.ancestors().take(place.missing()).collect();
            made.reverse();
            let made = made
                .into_iter()
                .map(|above| by_agent(above, FileVersion::Absent, FileVersion::Directory { mode: None }));
            let after = self.keep_new(path, keeping.store, data, &seen.version)?;
            let changes = made.chain([by_agent(real.clone(), seen.version, after)]).collect();
            let noted = keeping.note(path, changes, self.options.sync)?;
            let place = if place.missing() == 0 { Ok(place) } else { self.locate(path, Last::Create) };
            let written = place.and_then(|place| {
                if real_of(path, &place)? != real {
                    return Err(FsError::Changed { path: path.clone() });
                }
                let name = place.name.as_deref().ok_or_else(is_directory)?;
                let target = Target { path, directory: &place.directory, name };
                self.replace(&target, data, mode, Some(&seen.host), None)
            });
            match written {
                Ok(version) => {
                    keeping.mark(&noted, true);
                    return Ok((version, *noted.end()));
                }
                Err(error) => {
                    let changed = matches!(error, FsError::Changed { .. });
                    // Where the disk is waited for, it may have failed with the file in its place.
                    if changed || !self.options.sync {
                        keeping.mark(&noted, false);
                    }
                    // What it is to be based on may hold for the new version as well.
                    if !changed || matches!(mode, WriteMode::IfVersion(_)) {
                        return Err(error);
                    }
                }
            }
        }
        Err(FsError::Changed { path: path.clone() })
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
        let fail = |errno| failed(path, errno);
        // Before the work of writing; what counts is the check in `commit`.
        let before = target.there()?;
        mode.check(path, before.as_ref().map(version_of).as_ref())?;

        let temporary = Temporary::create(target)?;
        let mut file = File::from(temporary.file.try_clone().map_err(|error| FsError::from_io(path, &error))?);
        file.write_all(data).map_err(|error| FsError::from_io(path, &error))?;
        // Bits that lend the owner's rights to whoever runs the file go only with that owner.
        let mut lent = false;
        if let Some(before) = &before {
            let owner = (Uid::from_raw(before.st_uid), Gid::from_raw(before.st_gid));
            let mine = fstat(&temporary.file).map_err(fail)?;
            // Only root may give files away; for others the file becomes their own.
            lent = (mine.st_uid, mine.st_gid) == (before.st_uid, before.st_gid)
                || fchown(&temporary.file, Some(owner.0), Some(owner.1)).is_ok();
        }
        let bits = before.as_ref().map(|before| before.st_mode & 0o7777).or(bits);
        if let Some(bits) = bits.map(|bits| if lent { bits } else { bits & 0o777 }) {
            fchmod(&temporary.file, Mode::from_raw_mode(bits)).map_err(fail)?;
        }
        stamp(&temporary.file).map_err(fail)?;
        if self.options.sync {
            file.sync_all().map_err(|error| FsError::from_io(path, &error))?;
        }
        let version = self.commit(target, temporary, mode, based)?;
        if self.options.sync {
            rustix::fs::fsync(target.directory).map_err(fail)?;
        }
        Ok(version)
    }

    /// Puts the temporary file in place if the condition holds.
    fn commit(
        &self,
        target: &Target<'_>,
        temporary: Temporary<'_>,
        mode: &WriteMode,
        based: Option<&Based>,
    ) -> Result<Version, FsError> {
        let fail = |errno| failed(target.path, errno);
        let _commit = self.commit.lock().unwrap_or_else(PoisonError::into_inner);
        let there = target.there()?;
        let there = there.as_ref().map(version_of);
        mode.check(target.path, there.as_ref())?;
        if based.is_some_and(|based| *based != there) {
            return Err(FsError::Changed { path: target.path.clone() });
        }
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
pub(super) struct Target<'a> {
    pub(super) path: &'a VPath,
    pub(super) directory: &'a OwnedFd,
    pub(super) name: &'a OsStr,
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
