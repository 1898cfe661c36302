//! Writes into an existing file.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use rustix::fs::{Mode, OFlags, Stat, fstat, openat};

use super::Root;
use super::open::{At, SAFE, modified, version_of};
use super::write::{Target, stamp};
use crate::{FsError, Version};

impl Root {
    /// Writes into the existing file, for cases where a replacement would give access to a command that may not write
    /// the file, or to other users. Unlike a replacement, the write is not atomic: if the process ends, the file is
    /// half written. If the write fails, the previous content is put back, unless it is too large to be held.
    pub(super) fn write_in_place(&self, target: &Target<'_>, there: &Stat, data: &[u8]) -> Result<Version, FsError> {
        let path = target.path;
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | SAFE;
        let file = File::from(openat(target.directory, target.name, flags, Mode::empty()).at(path)?);
        if version_of(&fstat(&file).at(path)?) != version_of(there) {
            return Err(FsError::Changed(path.clone()));
        }
        let before = self.held_content(target, there);
        target.altered.set(true);
        let fill = |content: &[u8], modified| -> std::io::Result<()> {
            file.write_all_at(content, 0)?;
            file.set_len(content.len() as u64)?;
            stamp(&file, modified)?;
            if self.options.sync { file.sync_all() } else { Ok(()) }
        };
        if let Err(error) = fill(data, target.modified) {
            let error = FsError::from_io(path, &error);
            let put_back = |content: Vec<u8>| fill(&content, modified(there).unwrap_or_default()).is_ok();
            if before.is_some_and(put_back) {
                target.altered.set(false);
                return Err(error);
            }
            return Err(match error {
                FsError::Io { path, kind, reason } => {
                    FsError::Io { path, kind, reason: format!("{reason}; it may hold a part of the new content now") }
                }
                other => other,
            });
        }
        Ok(version_of(&fstat(&file).at(path)?))
    }

    /// Returns the content of the file to be overwritten; `None` if it cannot be read, or is larger than a read may be.
    fn held_content(&self, target: &Target<'_>, there: &Stat) -> Option<Vec<u8>> {
        let size = u64::try_from(there.st_size).ok().filter(|size| *size <= self.options.max_read)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | SAFE;
        let file = File::from(openat(target.directory, target.name, flags, Mode::empty()).ok()?);
        let mut content = Vec::new();
        (&file).take(size).read_to_end(&mut content).ok()?;
        let same = fstat(&file).is_ok_and(|now| version_of(&now) == version_of(there));
        (same && content.len() as u64 == size).then_some(content)
    }
}
