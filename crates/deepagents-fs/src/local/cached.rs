//! Reading what the kernel holds in memory, without another thread.

use std::io::IoSliceMut;

use bytes::Bytes;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{ReadWriteFlags, preadv2};

use super::open::{SAFE, held_stat};
use super::{Links, Root};
use crate::{ByteRange, FileRead, VPath};

/// More takes long enough that other tasks would wait for it.
const MOST: u64 = 64 << 10;

impl Root {
    /// Reads a small file whose path and content are in the kernel's caches. Nothing where anything would have to be waited
    /// for, and where there is more to say than what is in the file: then it is read as any other.
    ///
    /// Most files are small and were read or written a moment ago. Handing such a read to another thread costs several
    /// times what it takes.
    pub(super) fn read_cached(&self, path: &VPath, range: ByteRange) -> Option<FileRead> {
        if !self.options.kernel_resolution || path.is_root() {
            return None;
        }
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
        resolve.set(ResolveFlags::NO_SYMLINKS, self.links == Links::Refuse);
        let fd = openat2(&self.fd, path.relative(), OFlags::RDONLY | SAFE, Mode::empty(), resolve).ok()?;
        // Before the content, so that whoever goes by this version never replaces what was not read.
        let stat = held_stat(&fd)?;
        let wanted = range.length.unwrap_or(u64::MAX).min(stat.size.checked_sub(range.offset)?);
        // Some files in /proc have no size.
        if wanted == 0 || wanted > MOST.min(self.options.max_read) {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(wanted).ok()?];
        // Where file systems of other machines cannot read so, this fails, and their facts are not relied on.
        let read = preadv2(&fd, &mut [IoSliceMut::new(&mut bytes)], range.offset, ReadWriteFlags::NOWAIT).ok()?;
        (read == bytes.len()).then(|| FileRead { bytes: Bytes::from(bytes), stat })
    }
}
