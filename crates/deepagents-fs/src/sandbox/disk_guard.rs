//! Space that commands leave on the disk.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// How often it is looked at, at least and at most.
const LOOK: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];

/// Bytes and files that commands take in a millisecond, at most: so much as fits through memory.
const BYTES_A_MILLISECOND: u64 = 16 << 20;
const FILES_A_MILLISECOND: u64 = 1_000;

/// Files and directories that stay possible.
const FILES: u64 = 10_000;

/// Files and directories of those that stay possible whatever happens, where there are few: each of them takes one that this
/// process may have open.
const RESERVED_FILES: u64 = 128;

/// Files that cannot be made before somebody has looked, even where this process waits for its turn.
const FAR_FILES: u64 = 500_000;

/// Bytes above the floor that cannot be used up before somebody has looked, even where this process waits for its turn.
const FAR: u64 = 2 << 30;

/// What has to stay free where a command may write. No limit of the kernel bounds what many files take together, so it is
/// looked at from outside while the command runs. Where so little is left that a command could take it between two
/// looks, the space that has to stay is taken first, by a file without a name that goes with the command: then the
/// kernel refuses what is beyond. The same is done for the number of files, as far as this process may hold some open.
#[derive(Debug)]
pub(crate) struct Spare<'a> {
    floors: Vec<Floor<'a>>,
}

#[derive(Debug)]
struct Floor<'a> {
    at: &'a Path,
    bytes: u64,
    files: u64,
    /// Hold the space, and each a place for a file, for as long as they are open.
    _reserve: Vec<OwnedFd>,
}

impl<'a> Spare<'a> {
    /// So many bytes where these directories are, or half of what there is if that is less.
    pub(crate) fn new(bytes: u64, directories: impl IntoIterator<Item = &'a Path>) -> Self {
        let floor = |at| {
            let (before, possible) = free(at)?;
            let (floor, files) = (bytes.min(before / 2), FILES.min(possible / 2));
            let reserve = (before - floor < FAR).then(|| reserved(at, floor)).flatten();
            let places = if possible < FAR_FILES { RESERVED_FILES.min(files) } else { 0 };
            // Where no more files may be open, fewer are held.
            let places: Vec<OwnedFd> = (0..places).map_while(|_| unnamed(at)).collect();
            // Of what is left then, a little is kept to end the command by, before it finds the disk full.
            let bytes = if reserve.is_some() { floor / 8 } else { floor };
            let files = files.saturating_sub(places.len() as u64).max(files / 8);
            let reserve = reserve.into_iter().chain(places).collect();
            Some(Floor { at, bytes, files, _reserve: reserve })
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

/// A file without a name of so many bytes; none where the file system has no such thing, or not the space any more.
fn reserved(at: &Path, bytes: u64) -> Option<OwnedFd> {
    let file = unnamed(at)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes).ok()?;
    Some(file)
}

/// A file without a name.
fn unnamed(at: &Path) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open(at, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR).ok()
}

/// Bytes and files that are free. Some file systems have no number of files; they tell none at all.
fn free(at: &Path) -> Option<(u64, u64)> {
    let told = rustix::fs::statvfs(at).ok()?;
    let files = if told.f_files == 0 { u64::MAX } else { told.f_favail };
    Some((told.f_bavail.saturating_mul(told.f_frsize), files))
}
