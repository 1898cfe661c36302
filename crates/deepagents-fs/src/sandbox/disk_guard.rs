//! Space that commands leave on the disk.

use std::path::Path;
use std::time::Duration;

/// How often it is looked at, at least and at most.
const LOOK: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];

/// Bytes and files that commands take in a millisecond, at most: so much as fits through memory.
const BYTES_A_MILLISECOND: u64 = 16 << 20;
const FILES_A_MILLISECOND: u64 = 1_000;

/// Files and directories that stay possible.
const FILES: u64 = 10_000;

/// What has to stay free where a command may write. No limit of the kernel bounds what many files take together, so it is
/// looked at from outside while the command runs.
#[derive(Debug)]
pub(crate) struct Spare<'a> {
    floors: Vec<Floor<'a>>,
}

#[derive(Debug)]
struct Floor<'a> {
    at: &'a Path,
    bytes: u64,
    files: u64,
}

impl<'a> Spare<'a> {
    /// So many bytes where these directories are, or half of what there is if that is less.
    pub(crate) fn new(bytes: u64, directories: impl IntoIterator<Item = &'a Path>) -> Self {
        let floor = |at| {
            let (free, possible) = free(at)?;
            Some(Floor { at, bytes: bytes.min(free / 2), files: FILES.min(possible / 2) })
        };
        Self { floors: directories.into_iter().filter_map(floor).collect() }
    }

    /// When to look again: before what is left above the floor can be used up.
    pub(crate) fn next_look(&self) -> Duration {
        let left = |floor: &Floor<'_>| {
            let (bytes, files) = free(floor.at)?;
            let bytes = bytes.saturating_sub(floor.bytes) / BYTES_A_MILLISECOND;
            Some(bytes.min(files.saturating_sub(floor.files) / FILES_A_MILLISECOND))
        };
        let [least, most] = LOOK;
        self.floors.iter().filter_map(left).min().map_or(most, Duration::from_millis).clamp(least, most)
    }

    /// Whether there is less.
    pub(crate) fn is_used_up(&self) -> bool {
        let below =
            |floor: &Floor<'_>| free(floor.at).is_some_and(|(bytes, files)| bytes < floor.bytes || files < floor.files);
        self.floors.iter().any(below)
    }
}

/// Bytes and files that are free. Some file systems have no number of files; they tell none at all.
fn free(at: &Path) -> Option<(u64, u64)> {
    let told = rustix::fs::statvfs(at).ok()?;
    let files = if told.f_files == 0 { u64::MAX } else { told.f_favail };
    Some((told.f_bavail.saturating_mul(told.f_frsize), files))
}
