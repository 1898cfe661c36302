//! Temporary files that replace others.

use std::ffi::{OsStr, OsString};
use std::fs::File;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, Stat as HostStat, linkat, openat, renameat, unlinkat};
#[cfg(target_os = "linux")]
use rustix::fs::{RenameFlags, fstat, renameat_with, statat};
use rustix::io::Errno;

use super::open::{At, SAFE, failed};
use super::write::Target;
use crate::{FsError, VPath};

/// Maximum number of exchanges when a file keeps being replaced concurrently.
#[cfg(target_os = "linux")]
const MAX_SWAPS: usize = 64;

/// A file that is deleted on drop unless it was put in place. Where the system supports files without a name, it also
/// disappears if the process dies; elsewhere it has a temporary name.
pub(super) struct Temporary<'a> {
    pub(super) file: File,
    directory: &'a OwnedFd,
    /// Temporary name, to be removed on drop.
    name: Option<OsString>,
}

impl<'a> Temporary<'a> {
    pub(super) fn create(target: &Target<'a>, mode: Mode) -> Result<Self, FsError> {
        let directory = target.directory;
        #[cfg(target_os = "linux")]
        if std::fs::exists("/proc/self/fd").unwrap_or(false) {
            // Not every file system supports this. If the fallback fails too, its error is reported.
            if let Ok(file) = openat(directory, c".", OFlags::WRONLY | OFlags::TMPFILE | SAFE, mode) {
                return Ok(Self { file: file.into(), directory, name: None });
            }
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | SAFE;
        loop {
            let name = unused_name();
            match openat(directory, &name, flags, mode) {
                Ok(file) => return Ok(Self { file: file.into(), directory, name: Some(name) }),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(target.path, errno)),
            }
        }
    }

    /// Gives the file a name that must not exist yet.
    pub(super) fn link(&mut self, path: &VPath, name: &OsStr) -> Result<(), FsError> {
        let Some(own) = &self.name else { return self.link_as(name).at(path) };
        match linkat(self.directory, own, self.directory, name, AtFlags::empty()) {
            Ok(()) => {
                unlinkat(self.directory, own, AtFlags::empty()).at(path)?;
                self.name = None;
                Ok(())
            }
            // The file system has no hard links.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => self.rename(path, name),
            Err(errno) => Err(failed(path, errno)),
        }
    }

    /// Replaces whatever has the name.
    pub(super) fn rename(&mut self, path: &VPath, name: &OsStr) -> Result<(), FsError> {
        let own = self.ensure_name(path)?;
        renameat(self.directory, &own, self.directory, name).at(path)?;
        self.name = None;
        Ok(())
    }

    /// Replaces a file that must still be the one examined before. Programs that do not take the lock may have replaced
    /// it since. The exchange returns the old file, so if that is another one, it is put back.
    pub(super) fn exchange(&mut self, target: &Target<'_>, there: &HostStat) -> Result<(), FsError> {
        #[cfg(target_os = "linux")]
        {
            let own = self.ensure_name(target.path)?;
            let swap = || renameat_with(self.directory, &own, self.directory, target.name, RenameFlags::EXCHANGE);
            match swap() {
                Ok(()) => {
                    target.altered.set(true);
                    let taken = || {
                        statat(self.directory, &own, AtFlags::SYMLINK_NOFOLLOW).map(|host| mark(&host)).at(target.path)
                    };
                    let mut held = taken()?;
                    if held == mark(there) {
                        // The old file now has the temporary name and is deleted on drop.
                        return Ok(());
                    }
                    // Swap back until the file that comes out is the one that was put in, as it may be replaced again
                    // in between.
                    let mut put = mark(&fstat(&self.file).at(target.path)?);
                    for _ in 0..MAX_SWAPS {
                        swap().at(target.path)?;
                        let out = taken()?;
                        if out == put {
                            target.altered.set(false);
                            break;
                        }
                        (put, held) = (held, out);
                    }
                    return Err(FsError::Changed(target.path.clone()));
                }
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
                Err(Errno::NOENT) => return Err(FsError::Changed(target.path.clone())),
                Err(errno) => return Err(failed(target.path, errno)),
            }
        }
        let _ = there;
        self.rename(target.path, target.name)
    }

    /// Returns the file's name, giving it one if needed.
    fn ensure_name(&mut self, path: &VPath) -> Result<OsString, FsError> {
        loop {
            if let Some(name) = &self.name {
                return Ok(name.clone());
            }
            let name = unused_name();
            match self.link_as(&name) {
                Ok(()) => self.name = Some(name),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(path, errno)),
            }
        }
    }

    /// Links the unnamed file under a name.
    fn link_as(&self, name: &OsStr) -> Result<(), Errno> {
        use std::os::fd::AsRawFd;
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        linkat(rustix::fs::CWD, own.as_str(), self.directory, name, AtFlags::SYMLINK_FOLLOW)
    }
}

/// Identifies a version of a file even after a move.
#[cfg(target_os = "linux")]
fn mark(host: &HostStat) -> (u64, i64, i64, i128) {
    (host.st_ino, host.st_size, host.st_mtime, i128::from(host.st_mtime_nsec))
}

fn unused_name() -> OsString {
    OsString::from(format!(".tmp-{:016x}", fastrand::u64(..)))
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(self.directory, name, AtFlags::empty());
        }
    }
}
