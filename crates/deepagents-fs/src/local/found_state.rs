//! Reads the version and content of a path for recording.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::open::{At, SAFE, failed, modified, version_of};
use crate::undo::{FileVersion, hash_stream, time_mark};
use crate::{FsError, VPath, Version};

/// What was found at a path: its recorded version, the backend's version of that same state, and the content to be
/// stored.
#[derive(Debug)]
pub(super) struct FoundState {
    pub(super) version: FileVersion,
    pub(super) host: Option<Version>,
    pub(super) content: Vec<u8>,
}

impl FoundState {
    pub(super) fn new(version: FileVersion) -> Self {
        Self { version, host: None, content: Vec::new() }
    }
}

/// Size limits for reading files, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadLimits {
    /// Files up to this size are hashed. Larger ones are identified by size and time, as reading a whole file that is
    /// not recorded may take minutes.
    pub(super) hash: u64,
    /// The content of files up to this size is returned too.
    pub(super) content: u64,
}

impl ReadLimits {
    /// Returns limits for both the content and the hash.
    pub(super) fn up_to(bytes: u64) -> Self {
        Self { hash: bytes, content: bytes }
    }
}

/// Returns the version and content of a file or directory.
pub(super) fn read_state(
    path: &VPath,
    directory: impl AsFd,
    name: &OsStr,
    limits: ReadLimits,
) -> Result<FoundState, FsError> {
    let host = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(host) => host,
        Err(Errno::NOENT) => return Ok(FoundState::new(FileVersion::Absent)),
        Err(errno) => return Err(failed(path, errno)),
    };
    let version = match FileType::from_raw_mode(host.st_mode) {
        FileType::Directory => FileVersion::Directory { mode: Some(host.st_mode & 0o7777) },
        FileType::Symlink => match readlinkat(&directory, name, Vec::new()).at(path)?.into_string() {
            Ok(target) => FileVersion::Link { target },
            Err(_) => FileVersion::unrecorded("it is a link whose target is not text"),
        },
        FileType::RegularFile => {
            match openat(&directory, name, OFlags::RDONLY | OFlags::NOFOLLOW | SAFE, Mode::empty()) {
                Ok(fd) => return read_open_file(path, fd, limits),
                Err(Errno::ACCESS) => FileVersion::unrecorded("it cannot be read"),
                Err(Errno::NOENT) => return Ok(FoundState::new(FileVersion::Absent)),
                Err(errno) => return Err(failed(path, errno)),
            }
        }
        _ => FileVersion::unrecorded("it is neither a file nor a directory"),
    };
    Ok(FoundState { host: Some(version_of(&host)), ..FoundState::new(version) })
}

fn read_open_file(path: &VPath, fd: OwnedFd, limits: ReadLimits) -> Result<FoundState, FsError> {
    let before = fstat(&fd).at(path)?;
    let (mut file, mut content) = (File::from(fd), Vec::new());
    let expected = u64::try_from(before.st_size).unwrap_or(0);
    if expected <= limits.content {
        (&mut file).take(limits.content.saturating_add(1)).read_to_end(&mut content).at(path)?;
    }
    let modified = modified(&before).unwrap_or_default();
    let (hash, size) = if expected > limits.hash {
        (time_mark(modified), expected)
    } else {
        // If the whole file was read, nothing is left. If the file grows, no more than the limit is read.
        let rest = (&mut file).take(limits.hash.saturating_sub(content.len() as u64));
        hash_stream(content.as_slice().chain(rest)).at(path)?
    };
    // If the file was written to in the meantime, use a version that matches nothing.
    let after = fstat(&file).at(path)?;
    let (bits, before, after) = (before.st_mode & 0o7777, version_of(&before), version_of(&after));
    let host = if before == after { after } else { Version::new("changed while it was read") };
    let stored = size == content.len() as u64 && size <= limits.content;
    Ok(FoundState { version: FileVersion::File { hash, size, mode: bits, stored }, host: Some(host), content })
}
