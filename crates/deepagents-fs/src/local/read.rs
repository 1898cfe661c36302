//! Reading files and directories.

use std::fs::File;
use std::io::ErrorKind;

use rustix::fs::{AtFlags, Dir, FileType, OFlags, statat};

use super::open::{At, entries, modified, to_stat};
use super::{Links, Root};
use crate::lines::{self, LineRange, LineWindow};
use crate::path::is_component;
use crate::search::{Control, MAX_FILES};
use crate::{ByteRange, Entry, FileRead, FsError, Kind, Listing, Stat, VPath};

impl Root {
    pub(super) fn stat(&self, path: &VPath) -> Result<Stat, FsError> {
        self.stat_by(path, self.links)
    }

    fn stat_by(&self, path: &VPath, links: Links) -> Result<Stat, FsError> {
        #[cfg(target_os = "linux")]
        let fd = self.open(path, OFlags::PATH, links)?;
        #[cfg(not(target_os = "linux"))]
        let fd = self.open(path, OFlags::RDONLY, links)?;
        super::open::stat_fd(path, &fd)
    }

    pub(super) fn read(&self, path: &VPath, range: ByteRange) -> Result<FileRead, FsError> {
        let (fd, stat) = self.open_file(path)?;
        FileRead::from_open(path, File::from(fd), stat, range, self.options.max_read)
    }

    pub(super) fn read_lines(&self, path: &VPath, range: LineRange, control: &Control) -> Result<LineWindow, FsError> {
        let (fd, stat) = self.open_file(path)?;
        lines::scan(path, File::from(fd), &stat, range, control)
    }

    pub(super) fn list(&self, path: &VPath) -> Result<Listing, FsError> {
        let fd = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY, self.links)?;
        let (mut listed, mut unnameable) = (Vec::new(), 0);
        for found in entries(Dir::read_from(&fd).at(path)?) {
            let found = found.at(path)?;
            let raw = found.file_name();
            if listed.len() >= MAX_FILES {
                let reason = format!("it holds more than {MAX_FILES} files; search it with glob instead");
                return Err(FsError::io(path, ErrorKind::Other, reason));
            }
            let Some(name) = raw.to_str().ok().filter(|name| is_component(name)) else {
                unnameable += 1;
                continue;
            };
            // Skip entries that were deleted since the directory was read.
            let Ok(host) = statat(&fd, raw, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let child = path.child(name);
            let link = FileType::from_raw_mode(host.st_mode) == FileType::Symlink;
            let stat = if link { self.stat_by(&child, Links::Follow).ok() } else { Some(to_stat(&host)) };
            let (kind, size, modified) =
                stat.map_or((Kind::Other, 0, modified(&host)), |stat| (stat.kind, stat.size, stat.modified));
            listed.push(Entry { path: child, kind, size, modified, link });
        }
        Ok(Listing { unnameable, ..Listing::from_entries(listed) })
    }
}
