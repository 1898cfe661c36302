//! Writing down what is about to be changed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::Root;
use super::open::{SAFE, failed, version_of};
use super::walk::Base;
use crate::kept::{By, FileVersion, Marks, NewStep, Store, hash_of, hash_stream};
use crate::path::is_component;
use crate::{FsError, VPath, Version};

/// What keeps the changes of a thread.
#[derive(Clone, Copy)]
pub(super) struct Keeping<'a> {
    pub(super) store: &'a Store,
    pub(super) marks: &'a Marks,
}

/// What was found at a place, and the mark of that very version.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) version: FileVersion,
    pub(super) host: Option<Version>,
}

/// An error of the store about a change of a path.
pub(super) fn not_kept(path: &VPath, error: &std::io::Error) -> FsError {
    FsError::io(path, error.kind(), format!("what it held cannot be kept ({}), so it was not changed", error.kind()))
}

impl Keeping<'_> {
    /// Writes changes down before they are made.
    pub(super) fn note(&self, path: &VPath, changes: Vec<NewStep>, sync: bool) -> Result<RangeInclusive<u64>, FsError> {
        let noted = self.store.append(&self.marks.id, &self.marks.earlier, changes, sync);
        noted.map_err(|error| not_kept(path, &error))
    }

    /// Writes down what became of them. What fails here is worked out from the files when it is needed.
    pub(super) fn mark(&self, changes: &RangeInclusive<u64>, done: bool) {
        let _ = self.store.mark(&self.marks.id, changes, done);
    }
}

/// A change by the agent.
pub(super) fn by_agent(path: VPath, before: FileVersion, after: FileVersion) -> NewStep {
    NewStep { path, before, after, by: By::Agent, others: false }
}

impl Root {
    /// What is at a place; with a store, its content is stored.
    pub(super) fn look(
        &self,
        path: &VPath,
        directory: impl AsFd,
        name: &OsStr,
        store: Option<&Store>,
    ) -> Result<Seen, FsError> {
        self.look_within(path, directory, name, store, u64::MAX)
    }

    fn look_within(
        &self,
        path: &VPath,
        directory: impl AsFd,
        name: &OsStr,
        store: Option<&Store>,
        most: u64,
    ) -> Result<Seen, FsError> {
        let fail = |errno| failed(path, errno);
        let unkept = |why: &str| FileVersion::Unkept { why: why.to_owned() };
        let host = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(host) => host,
            Err(Errno::NOENT) => return Ok(Seen { version: FileVersion::Absent, host: None }),
            Err(errno) => return Err(fail(errno)),
        };
        let version = match FileType::from_raw_mode(host.st_mode) {
            FileType::Directory => FileVersion::Directory { mode: Some(host.st_mode & 0o7777) },
            FileType::Symlink => {
                let to = readlinkat(&directory, name, Vec::new()).map_err(fail)?;
                match to.into_string() {
                    Ok(to) => FileVersion::Link { to },
                    Err(_) => unkept("it is a link whose target is no text"),
                }
            }
            FileType::RegularFile => {
                match openat(&directory, name, OFlags::RDONLY | OFlags::NOFOLLOW | SAFE, Mode::empty()) {
                    Ok(fd) => return self.read_version(path, fd, store, most),
                    Err(Errno::ACCESS) => unkept("it cannot be read"),
                    Err(Errno::NOENT) => return Ok(Seen { version: FileVersion::Absent, host: None }),
                    Err(errno) => return Err(fail(errno)),
                }
            }
            _ => unkept("it is neither a file nor a directory"),
        };
        Ok(Seen { version, host: Some(version_of(&host)) })
    }

    fn read_version(&self, path: &VPath, fd: OwnedFd, store: Option<&Store>, most: u64) -> Result<Seen, FsError> {
        let io = |error: std::io::Error| FsError::from_io(path, &error);
        let before = fstat(&fd).map_err(|errno| failed(path, errno))?;
        let mode = before.st_mode & 0o7777;
        let (mut file, mut head) = (File::from(fd), Vec::new());
        let limit = store.map_or(0, |store| store.keep.max_file).min(most);
        let size = u64::try_from(before.st_size).unwrap_or(0);
        if store.is_some() && size <= limit {
            (&mut file).take(limit.saturating_add(1)).read_to_end(&mut head).map_err(io)?;
        }
        let version = match store {
            Some(store) if size <= limit && head.len() as u64 <= limit => {
                let hash = store.put(&head, self.options.sync).map_err(|error| not_kept(path, &error))?;
                FileVersion::File { hash, size: head.len() as u64, mode, kept: true }
            }
            _ => {
                let (hash, size) = hash_stream(head.as_slice().chain(&mut file)).map_err(io)?;
                FileVersion::File { hash, size, mode, kept: false }
            }
        };
        // One that was written to meanwhile is not what was read: its mark fits nothing.
        let after = fstat(&file).map_err(|errno| failed(path, errno))?;
        let (before, after) = (version_of(&before), version_of(&after));
        let host = if before == after { after } else { Version::new("changed while it was read") };
        Ok(Seen { version, host: Some(host) })
    }

    /// A content that is about to be written.
    pub(super) fn keep_new(
        &self,
        path: &VPath,
        store: &Store,
        data: &[u8],
        before: &FileVersion,
    ) -> Result<FileVersion, FsError> {
        let size = data.len() as u64;
        let kept = size <= store.keep.max_file;
        let hash = if kept {
            store.put(data, self.options.sync).map_err(|error| not_kept(path, &error))?
        } else {
            hash_of(data)
        };
        let mode = match before {
            FileVersion::File { mode, .. } => *mode,
            _ => 0o644,
        };
        Ok(FileVersion::File { hash, size, mode, kept })
    }

    /// All that is about to be deleted with a directory; the directory's own change comes last.
    pub(super) fn keep_tree(&self, mut own: NewStep, top: OwnedFd, store: &Store) -> Result<Vec<NewStep>, FsError> {
        let path = &own.path;
        let base = Base { fd: top, path: path.clone(), kernel: self.options.kernel };
        let (mut bytes, mut files) = (store.keep.max_tree, store.keep.max_tree_files);
        let (mut found, mut left_out) = (Vec::new(), false);
        let mut todo = vec![String::new()];
        while let Some(relative) = todo.pop() {
            let fail = |errno| failed(path, errno);
            let directory = match base.open(&relative, OFlags::RDONLY | OFlags::DIRECTORY) {
                Ok(directory) => directory,
                Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => continue,
                Err(errno) => return Err(fail(errno)),
            };
            for entry in Dir::read_from(&directory).map_err(fail)? {
                let entry = entry.map_err(fail)?;
                let raw = entry.file_name();
                if matches!(raw.to_bytes(), b"." | b"..") {
                    continue;
                }
                if files == 0 {
                    left_out = true;
                    break;
                }
                files -= 1;
                let below = base.vpath(&relative);
                let Some(name) = raw.to_str().ok().filter(|name| is_component(name)) else {
                    let child = below.child(&raw.to_string_lossy().replace(['/', '\\'], "_"));
                    let why = "its name cannot be kept".to_owned();
                    found.push(by_agent(child, FileVersion::Unkept { why }, FileVersion::Absent));
                    continue;
                };
                let child = below.child(name);
                let seen = self.look_within(&child, &directory, OsStr::new(name), Some(store), bytes)?.version;
                match &seen {
                    FileVersion::Absent => continue,
                    FileVersion::File { size, kept: true, .. } => bytes = bytes.saturating_sub(*size),
                    FileVersion::Directory { .. } if relative.is_empty() => todo.push(name.to_owned()),
                    FileVersion::Directory { .. } => todo.push(format!("{relative}/{name}")),
                    _ => {}
                }
                found.push(by_agent(child, seen, FileVersion::Absent));
            }
        }
        if left_out {
            own.before = FileVersion::Unkept { why: format!("it held more than {} files", store.keep.max_tree_files) };
        }
        found.push(own);
        Ok(found)
    }
}
