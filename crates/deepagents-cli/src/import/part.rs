//! Files that get their names once they are complete.

use std::ffi::OsStr;
use std::fs::File;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;

use deepagents::core::env::{Ids, RandomIds};
#[cfg(target_os = "linux")]
use rustix::fs::CWD;
use rustix::fs::{AtFlags, Mode, OFlags, linkat, openat, unlinkat};
use rustix::io::Errno;

/// How a file that must not exist yet is opened.
pub(super) const NEW: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A file that is being written. Where the system supports files without a name, nothing is left of it if the program
/// is killed; elsewhere it has a temporary name, which is removed on drop.
pub(super) struct Part<'a> {
    pub(super) file: File,
    directory: &'a OwnedFd,
    temporary: Option<String>,
}

impl<'a> Part<'a> {
    pub(super) fn create(directory: &'a OwnedFd, mode: Mode) -> Result<Self, Errno> {
        #[cfg(target_os = "linux")]
        if std::fs::exists("/proc/self/fd").unwrap_or(false) {
            // Not every file system supports this. If the fallback fails too, its error is reported.
            if let Ok(file) = openat(directory, ".", OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC, mode) {
                return Ok(Self { file: file.into(), directory, temporary: None });
            }
        }
        let temporary = format!(".{}", RandomIds.next("import"));
        let file = openat(directory, &temporary, NEW, mode)?.into();
        Ok(Self { file, directory, temporary: Some(temporary) })
    }

    /// Gives the file a name that must not exist yet.
    pub(super) fn link(&self, name: &OsStr) -> Result<(), Errno> {
        match &self.temporary {
            Some(temporary) => linkat(self.directory, temporary, self.directory, name, AtFlags::empty()),
            #[cfg(target_os = "linux")]
            None => {
                let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                linkat(CWD, own, self.directory, name, AtFlags::SYMLINK_FOLLOW)
            }
            #[cfg(not(target_os = "linux"))]
            None => Err(Errno::NOTSUP),
        }
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // After a failed write, removing it may fail for the same reason.
            let _ = unlinkat(self.directory, temporary, AtFlags::empty());
        }
    }
}
