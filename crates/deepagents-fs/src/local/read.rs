//! Reading files and directories.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use bytes::Bytes;
use rustix::fs::{AtFlags, Dir, FileType, OFlags, statat};

use super::Root;
use super::open::{failed, kind_of, modified, to_stat};
use crate::lines::{LineRange, LineWindow, Scanner};
use crate::path::is_component;
use crate::{ByteRange, Entry, FileRead, FsError, Kind, Listing, Stat, VPath};

/// Bytes read from a file at a time when lines are looked for.
const CHUNK: usize = 64 << 10;

impl Root {
    pub(super) fn stat(&self, path: &VPath) -> Result<Stat, FsError> {
        #[cfg(target_os = "linux")]
        let fd = self.open(path, OFlags::PATH)?;
        #[cfg(not(target_os = "linux"))]
        let fd = self.open(path, OFlags::RDONLY)?;
        super::open::stat_fd(path, &fd)
    }

    pub(super) fn read(&self, path: &VPath, range: ByteRange) -> Result<FileRead, FsError> {
        let io = |error: std::io::Error| FsError::from_io(path, &error);
        let (fd, stat) = self.open_file(path)?;
        let mut file = File::from(fd);
        let limit = self.options.max_read;
        let expected = range.length.unwrap_or(u64::MAX).min(stat.size.saturating_sub(range.offset));
        if expected > limit {
            return Err(FsError::TooLarge { path: path.clone(), size: stat.size, limit });
        }
        if range.offset > 0 {
            file.seek(SeekFrom::Start(range.offset)).map_err(io)?;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
        // A file may grow while it is read, and some in /proc have no size.
        let most = range.length.unwrap_or(u64::MAX).min(limit.saturating_add(1));
        file.take(most).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > limit {
            return Err(FsError::TooLarge { path: path.clone(), size: bytes.len() as u64, limit });
        }
        Ok(FileRead { bytes: Bytes::from(bytes), stat })
    }

    pub(super) fn read_lines(&self, path: &VPath, range: LineRange) -> Result<LineWindow, FsError> {
        let (fd, stat) = self.open_file(path)?;
        let mut file = File::from(fd);
        let mut scanner = Scanner::new(range, stat.size);
        let mut chunk = vec![0; CHUNK];
        loop {
            match file.read(&mut chunk) {
                Ok(0) => {
                    scanner.finish_file();
                    break;
                }
                Ok(n) if scanner.feed(chunk.get(..n).unwrap_or_default()) => {}
                Ok(_) => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(FsError::from_io(path, &error)),
            }
        }
        Ok(scanner.into_window(stat.version))
    }

    pub(super) fn list(&self, path: &VPath) -> Result<Listing, FsError> {
        let fail = |errno| failed(path, errno);
        let fd = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let (mut entries, mut unnameable) = (Vec::new(), 0);
        for found in Dir::read_from(&fd).map_err(fail)? {
            let found = found.map_err(fail)?;
            let raw = found.file_name();
            if matches!(raw.to_bytes(), b"." | b"..") {
                continue;
            }
            let Some(name) = raw.to_str().ok().filter(|name| is_component(name)) else {
                unnameable += 1;
                continue;
            };
            // Gone since the directory was read: not listed.
            let Ok(host) = statat(&fd, raw, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let child = path.child(name);
            let entry = if FileType::from_raw_mode(host.st_mode) == FileType::Symlink {
                match self.stat(&child) {
                    Ok(stat) => {
                        Entry { path: child, kind: stat.kind, size: stat.size, modified: stat.modified, link: true }
                    }
                    Err(_) => Entry { path: child, kind: Kind::Other, size: 0, modified: modified(&host), link: true },
                }
            } else {
                let stat = to_stat(&host);
                let kind = kind_of(FileType::from_raw_mode(host.st_mode));
                Entry { path: child, kind, size: stat.size, modified: stat.modified, link: false }
            };
            entries.push(entry);
        }
        Ok(Listing { unnameable, ..Listing::of(entries) })
    }
}
