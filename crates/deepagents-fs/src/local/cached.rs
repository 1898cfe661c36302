//! Reads files from the kernel's caches without another thread.

use std::io::IoSliceMut;

use bytes::Bytes;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{ReadWriteFlags, preadv2};

use super::open::{SAFE, held_stat};
use super::{Links, Root};
use crate::{ByteRange, FileRead, VPath};

/// Larger reads would delay other tasks.
const MAX_READ_BYTES: u64 = 64 << 10;

impl Root {
    /// Reads a small file whose path and content are in the kernel's caches. Returns `None` if anything would block,
    /// and on any error; the regular path then reads or reports it.
    ///
    /// Most files are small and were recently read or written. Sending such a read to another thread costs several
    /// times as much as the read itself.
    pub(super) fn read_cached(&self, path: &VPath, range: ByteRange) -> Option<FileRead> {
        if !self.options.kernel_resolution || path.is_root() {
            return None;
        }
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
        resolve.set(ResolveFlags::NO_SYMLINKS, self.links == Links::Refuse);
        let fd = openat2(&self.fd, path.relative(), OFlags::RDONLY | SAFE, Mode::empty(), resolve).ok()?;
        // Get the version before the content, so that a write based on it never replaces content that was not read.
        let stat = held_stat(&fd)?;
        let wanted = range.length.unwrap_or(u64::MAX).min(stat.size.checked_sub(range.offset)?);
        // Some files in /proc report no size.
        if wanted == 0 || wanted > MAX_READ_BYTES.min(self.options.max_read) {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(wanted).ok()?];
        // Fails on network file systems that do not support such reads; their cached metadata is not relied on.
        let read = preadv2(&fd, &mut [IoSliceMut::new(&mut bytes)], range.offset, ReadWriteFlags::NOWAIT).ok()?;
        (read == bytes.len()).then(|| FileRead { bytes: Bytes::from(bytes), stat })
    }
}
