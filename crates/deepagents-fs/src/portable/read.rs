//! Reading files and directories.

use std::io::ErrorKind;

use cap_std::fs::{File, Metadata, OpenOptions};

use super::Root;
use super::place::relative;
use crate::lines::{self, LineRange, LineWindow};
use crate::path::is_component;
use crate::search::{Control, MAX_FILES};
use crate::{ByteRange, Entry, FileRead, FsError, Kind, Listing, Stat, VPath, Version};

/// Returns options to open a file for reading without blocking on the other end of a FIFO.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NONBLOCK.union(rustix::fs::OFlags::NOCTTY);
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    }
    options
}

pub(super) fn to_stat(host: &Metadata) -> Stat {
    let kind = match host {
        host if host.is_file() => Kind::File,
        host if host.is_dir() => Kind::Directory,
        _ => Kind::Other,
    };
    let size = if kind == Kind::File { host.len() } else { 0 };
    Stat { kind, size, version: version_of(host), modified: modified(host) }
}

fn modified(host: &Metadata) -> Option<jiff::Timestamp> {
    jiff::Timestamp::try_from(host.modified().ok()?.into_std()).ok()
}

pub(super) fn version_of(host: &Metadata) -> Version {
    let nanoseconds = |time: Option<jiff::Timestamp>| time.map_or(0, jiff::Timestamp::as_nanosecond);
    let created = host.created().ok().and_then(|time| jiff::Timestamp::try_from(time.into_std()).ok());
    // Tells apart two files with the same size and timestamps.
    #[cfg(unix)]
    let more = {
        use cap_std::fs::MetadataExt;
        format!("-{:x}-{:x}.{:x}", host.ino(), host.ctime(), host.ctime_nsec())
    };
    #[cfg(not(unix))]
    let more = "";
    Version::new(format!("{:x}-{:x}-{:x}{more}", host.len(), nanoseconds(modified(host)), nanoseconds(created)))
}

impl Root {
    pub(super) fn stat(&self, path: &VPath) -> Result<Stat, FsError> {
        Self::check_names(path)?;
        let host = self.directory.metadata(relative(path)).map_err(|error| self.failed(path, &error))?;
        Ok(to_stat(&host))
    }

    /// Opens a regular file. Checks its kind before opening, as opening a device may have side effects, and again
    /// afterwards.
    fn open_file(&self, path: &VPath) -> Result<(File, Stat), FsError> {
        self.stat(path)?.kind.require_file(path)?;
        let failed = |error: std::io::Error| self.failed(path, &error);
        let file = self.directory.open_with(relative(path), &options()).map_err(failed)?;
        let stat = to_stat(&file.metadata().map_err(failed)?);
        stat.kind.require_file(path)?;
        Ok((file, stat))
    }

    pub(super) fn read(&self, path: &VPath, range: ByteRange) -> Result<FileRead, FsError> {
        let (file, stat) = self.open_file(path)?;
        FileRead::from_open(path, file, stat, range, self.options.max_read)
    }

    pub(super) fn read_lines(&self, path: &VPath, range: LineRange, control: &Control) -> Result<LineWindow, FsError> {
        let (file, stat) = self.open_file(path)?;
        lines::scan(path, file, &stat, range, control)
    }

    pub(super) fn list(&self, path: &VPath) -> Result<Listing, FsError> {
        Self::check_names(path)?;
        let failed = |error: std::io::Error| self.failed(path, &error);
        if self.stat(path)?.kind != Kind::Directory {
            return Err(FsError::NotADirectory(path.clone()));
        }
        let (mut entries, mut unnameable) = (Vec::new(), 0);
        for found in self.directory.read_dir(relative(path)).map_err(failed)? {
            let found = found.map_err(failed)?;
            if entries.len() >= MAX_FILES {
                let reason = format!("it holds more than {MAX_FILES} files; search it with glob instead");
                return Err(FsError::io(path, ErrorKind::Other, reason));
            }
            let raw = found.file_name();
            let Some(name) = raw.to_str().filter(|name| is_component(name)) else {
                unnameable += 1;
                continue;
            };
            // Skip entries that were deleted since the directory was read.
            let Ok(host) = found.metadata() else { continue };
            let child = path.child(name);
            let link = host.is_symlink();
            let stat = if link { self.stat(&child).ok() } else { Some(to_stat(&host)) };
            let (kind, size, modified) =
                stat.map_or((Kind::Other, 0, modified(&host)), |stat| (stat.kind, stat.size, stat.modified));
            entries.push(Entry { path: child, kind, size, modified, link });
        }
        Ok(Listing { unnameable, ..Listing::from_entries(entries) })
    }
}
