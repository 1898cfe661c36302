//! Keeps disk space free while commands run.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// Minimum and maximum interval between checks.
const CHECK_INTERVAL: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];

/// Upper bounds on the bytes and files that commands can use in a millisecond, given memory bandwidth.
const BYTES_PER_MILLISECOND: u64 = 16 << 20;
const FILES_PER_MILLISECOND: u64 = 1_000;

/// Number of files and directories that it must remain possible to create.
const MIN_FREE_FILES: u64 = 10_000;

/// Number of those that are reserved where few are left. Each takes one of this process's open files.
const RESERVED_FILES: u64 = 128;

/// More free files than this cannot be used up before the next check, even if this process is not scheduled for a
/// while.
const AMPLE_FILES: u64 = 500_000;

/// More free bytes above the floor than this cannot be used up before the next check, even if this process is not
/// scheduled for a while.
const AMPLE_BYTES: u64 = 2 << 30;

/// Free space that must remain where a command may write. The kernel cannot limit the total size of many files, so the
/// space is checked from outside while the command runs.
///
/// If so little is free that a command could use it up between two checks, the required space is reserved in advance by
/// an unnamed file that exists as long as the command; the kernel then refuses further writes. The same is done for the
/// number of files, as far as this process may keep files open.
#[derive(Debug)]
pub(crate) struct Spare<'a> {
    floors: Vec<Floor<'a>>,
}

#[derive(Debug)]
struct Floor<'a> {
    at: &'a Path,
    bytes: u64,
    files: u64,
    /// Open files that reserve the space, and one file or directory each.
    _reserve: Vec<OwnedFd>,
}

impl<'a> Spare<'a> {
    /// Requires this many bytes to stay free in each directory, or half of the free space if that is less.
    pub(crate) fn new(bytes: u64, directories: impl IntoIterator<Item = &'a Path>) -> Self {
        let floor = |at| {
            let (before, possible) = free(at)?;
            let (floor, files) = (bytes.min(before / 2), MIN_FREE_FILES.min(possible / 2));
            let reserve = (before - floor < AMPLE_BYTES).then(|| reserved(at, floor)).flatten();
            let places = if possible < AMPLE_FILES { RESERVED_FILES.min(files) } else { 0 };
            // If no more files may be open, reserve fewer.
            let places: Vec<OwnedFd> = (0..places).map_while(|_| unnamed(at)).collect();
            // Keep a little of the remaining space, so that the command is ended before it finds the disk full.
            let bytes = if reserve.is_some() { floor / 8 } else { floor };
            let files = files.saturating_sub(places.len() as u64).max(files / 8);
            let reserve = reserve.into_iter().chain(places).collect();
            Some(Floor { at, bytes, files, _reserve: reserve })
        };
        Self { floors: directories.into_iter().filter_map(floor).collect() }
    }

    /// Returns the time of the next check, before the space above the floor can be used up.
    pub(crate) fn next_check(&self) -> Duration {
        let left = |floor: &Floor<'_>| {
            let (bytes, files) = free(floor.at)?;
            let bytes = bytes.saturating_sub(floor.bytes) / BYTES_PER_MILLISECOND;
            Some(bytes.min(files.saturating_sub(floor.files) / FILES_PER_MILLISECOND))
        };
        let [least, most] = CHECK_INTERVAL;
        self.floors.iter().filter_map(left).min().map_or(most, Duration::from_millis).clamp(least, most)
    }

    /// Returns whether less than the required space is free.
    pub(crate) fn is_used_up(&self) -> bool {
        let below =
            |floor: &Floor<'_>| free(floor.at).is_some_and(|(bytes, files)| bytes < floor.bytes || files < floor.files);
        self.floors.iter().any(below)
    }
}

/// Creates an unnamed file of this size; `None` if the file system does not support it or lacks the space.
fn reserved(at: &Path, bytes: u64) -> Option<OwnedFd> {
    let file = unnamed(at)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes).ok()?;
    Some(file)
}

/// Creates an unnamed file.
fn unnamed(at: &Path) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open(at, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR).ok()
}

/// Returns the free bytes and files. Some file systems do not limit the number of files and report none.
fn free(at: &Path) -> Option<(u64, u64)> {
    let told = rustix::fs::statvfs(at).ok()?;
    let files = if told.f_files == 0 { u64::MAX } else { told.f_favail };
    Some((told.f_bavail.saturating_mul(told.f_frsize), files))
}
