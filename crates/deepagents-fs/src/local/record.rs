//! Records changes before they are made.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use deepagents_core::state::{State, Update};
use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;

use super::Root;
use super::found_state::{FoundState, ReadLimits, read_state};
use super::open::{At, DIRECTORY, entries, failed};
use super::resolve::{Last, real_of};
use super::walk::Base;
use super::write::Target;
use crate::path::is_component;
use crate::search::{MAX_PATH_BYTES, MAX_PATHS_BYTES};
use crate::undo::{Actor, Change, Database, FileVersion, ThreadLog, Tx, UndoError, UndoStore, hash_of, time_mark};
use crate::{FsError, VPath, WriteMode, Written};

/// Number of attempts at a change when the file changes concurrently.
const MAX_RACES: usize = 16;

/// Records the changes in a directory.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) database: Database,
    /// Identifies the directory in the database.
    pub(super) directory: String,
    sync: bool,
    /// Permissions of the files that this process creates.
    new_file_mode: u32,
}

/// Records the changes of one thread in a directory.
#[derive(Debug)]
pub(super) struct ThreadRecorder {
    recorder: Arc<Recorder>,
    log: ThreadLog,
}

impl From<UndoError> for FsError {
    fn from(error: UndoError) -> Self {
        let reason = format!("what it held cannot be recorded ({error}), so it was not changed");
        Self::io(&VPath::root(), io::ErrorKind::Other, reason)
    }
}

/// Creates a change by the agent.
fn by_agent(path: VPath, before: FileVersion, after: FileVersion) -> Change {
    Change::new(Actor::Agent, path, before, after)
}

impl Recorder {
    pub(super) fn open(root: &Path, store: &UndoStore, sync: bool) -> io::Result<Self> {
        let database = Database::new(store)?;
        if database.options.file.starts_with(root) {
            let inside = "the undo database would be inside the directory whose changes it records; put it elsewhere";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, inside));
        }
        let directory = hash_of(root.as_os_str().as_encoded_bytes()).chars().take(16).collect();
        Ok(Self { database, directory, sync, new_file_mode: 0o644 & !umask() })
    }

    /// Returns the recorder for the thread that a state belongs to.
    pub(super) fn thread_recorder(self: &Arc<Self>, state: &State) -> Option<ThreadRecorder> {
        let log = ThreadLog::in_state(state, &self.directory)?;
        Some(ThreadRecorder { recorder: self.clone(), log })
    }
}

impl ThreadRecorder {
    /// Records changes before they are made.
    fn announce(
        &self,
        path: &VPath,
        changes: impl FnOnce(&Tx<'_>) -> Result<Vec<Change>, FsError>,
    ) -> Result<RangeInclusive<u64>, FsError> {
        let Recorder { database, sync, .. } = &*self.recorder;
        let done = database.write(*sync, |tx| Ok(tx.append(&self.log, &changes(tx)?)?));
        // Errors of the database carry no path.
        done.map_err(|error: FsError| if error.path().is_root() { error.map_path(|_| path.clone()) } else { error })
    }

    /// Records whether the changes were made. If this fails, the outcome is inferred from the files when it is needed.
    fn settle(&self, changes: &RangeInclusive<u64>, done: bool) {
        let _ = self.recorder.database.write(false, |tx| tx.settle(&self.log, changes, done));
    }

    fn max_file(&self) -> u64 {
        self.recorder.database.options.max_file
    }

    /// Returns the version of content that is about to be written.
    fn new_version(&self, data: &[u8], modified: jiff::Timestamp, before: &FileVersion) -> FileVersion {
        let size = data.len() as u64;
        let mode = match before {
            FileVersion::File { mode, .. } => *mode,
            _ => self.recorder.new_file_mode,
        };
        let stored = size <= self.max_file();
        let hash = if stored { hash_of(data) } else { time_mark(modified) };
        FileVersion::File { hash, size, mode, stored }
    }
}

impl Root {
    /// Writes a file and records its previous content.
    pub(super) fn write_recorded(
        &self,
        path: &VPath,
        data: &[u8],
        mode: &WriteMode,
        recorder: &ThreadRecorder,
    ) -> Result<Written, FsError> {
        let is_directory = || FsError::IsDirectory(path.clone());
        self.check_named(path)?;
        for _ in 0..MAX_RACES {
            let place = self.walk(path, Last::Follow, self.links)?;
            self.check_place(path, &place)?;
            let real = real_of(path, &place)?;
            let name = place.name.as_deref().ok_or_else(is_directory)?;
            let seen = if place.missing() == 0 {
                read_state(path, &place.directory, name, ReadLimits::up_to(recorder.max_file()))?
            } else {
                FoundState::new(FileVersion::Absent)
            };
            match &seen.version {
                FileVersion::Directory { .. } => return Err(is_directory()),
                FileVersion::Link { .. } => continue,
                _ => mode.check(path, seen.host.as_ref())?,
            }
            let mut made: Vec<VPath> = real.ancestors().take(place.missing()).collect();
            made.reverse();
            let modified = jiff::Timestamp::now();
            let after = recorder.new_version(data, modified, &seen.version);
            let noted = recorder.announce(path, |tx| {
                tx.put(&seen.version, &seen.content)?;
                tx.put(&after, data)?;
                let directory = FileVersion::Directory { mode: None };
                let made = made.into_iter().map(|at| by_agent(at, FileVersion::Absent, directory.clone()));
                Ok(made.chain([by_agent(real.clone(), seen.version, after)]).collect())
            })?;
            let altered = Cell::default();
            let place = if place.missing() == 0 { Ok(place) } else { self.locate(path, Last::Create, self.links) };
            let written = place.and_then(|place| {
                let replace = || {
                    if real_of(path, &place)? != real {
                        return Err(FsError::Changed(path.clone()));
                    }
                    let name = place.name.as_deref().ok_or_else(is_directory)?;
                    let (directory, altered) = (&place.directory, &altered);
                    let target = Target { path, real: &real, directory, name, modified, altered };
                    self.replace(&target, data, mode, Some(&seen.host), None)
                };
                replace().inspect_err(|_| self.leave(&place))
            });
            match written {
                Ok(version) => {
                    recorder.settle(&noted, true);
                    return Ok(Written { update: recorder.log.advance(*noted.end()), version });
                }
                Err(error) => {
                    let changed = matches!(error, FsError::Changed(_));
                    // The record of a file that may hold new content is needed to bring back the previous one.
                    if !altered.get() {
                        recorder.settle(&noted, false);
                    }
                    // A condition on a version cannot hold after a change; other modes may still succeed.
                    if !changed || matches!(mode, WriteMode::IfVersion(_)) {
                        return Err(error);
                    }
                }
            }
        }
        Err(FsError::Changed(path.clone()))
    }

    /// Deletes a path and records its content.
    pub(super) fn remove_recorded(&self, path: &VPath, recorder: &ThreadRecorder) -> Result<Update, FsError> {
        self.check_named(path)?;
        for _ in 0..MAX_RACES {
            let place = self.locate(path, Last::NoFollow, self.links)?;
            self.check_removal(path, &place)?;
            let Some(name) = &place.name else { return Err(FsError::Fixed(path.clone())) };
            let real = real_of(path, &place)?;
            let seen = read_state(path, &place.directory, name, ReadLimits::up_to(recorder.max_file()))?;
            let host = seen.host.clone();
            let top = match &seen.version {
                FileVersion::Absent => return Err(FsError::NotFound(path.clone())),
                FileVersion::Directory { .. } => match openat(&place.directory, name, DIRECTORY, Mode::empty()) {
                    Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => continue,
                    top => Some(top.at(path)?),
                },
                _ => None,
            };
            let noted = recorder.announce(path, |tx| {
                tx.put(&seen.version, &seen.content)?;
                let own = by_agent(real, seen.version, FileVersion::Absent);
                let Some(fd) = top else { return Ok(vec![own]) };
                let base = Base { fd, path: own.path.clone(), kernel: self.options.kernel_resolution };
                record_tree(own, &base, tx, &recorder.recorder.database.options)
            })?;
            match self.remove_at(path, &place, host.as_ref()) {
                Ok(()) => {
                    recorder.settle(&noted, true);
                    return Ok(recorder.log.advance(*noted.end()));
                }
                Err(FsError::Changed(_)) => recorder.settle(&noted, false),
                Err(error) => {
                    // Someone else deleted the file in the meantime. A directory may have been deleted in part.
                    if matches!(error, FsError::NotFound(_)) && noted.start() == noted.end() {
                        recorder.settle(&noted, false);
                    }
                    return Err(error);
                }
            }
        }
        Err(FsError::Changed(path.clone()))
    }
}

/// Returns the permissions that this process withholds from new files; none if the system does not tell.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = |line: &str| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok();
    status.lines().find_map(umask).unwrap_or(0)
}

/// Records everything that is about to be deleted with a directory. The directory's own change comes last.
fn record_tree(mut own: Change, base: &Base, tx: &Tx<'_>, limits: &UndoStore) -> Result<Vec<Change>, FsError> {
    let (mut bytes, mut files, mut names) = (limits.max_tree, limits.max_tree_files, MAX_PATHS_BYTES);
    let (mut found, mut left_out) = (Vec::new(), None);
    let mut todo = vec![String::new()];
    while let Some(relative) = todo.pop() {
        let directory = match base.open(&relative, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(directory) => directory,
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => continue,
            Err(errno) => return Err(failed(&own.path, errno)),
        };
        for entry in entries(Dir::read_from(&directory).at(&own.path)?) {
            let entry = entry.at(&own.path)?;
            let raw = entry.file_name();
            if files == 0 {
                left_out = Some(format!("it held more than {} files", limits.max_tree_files));
                break;
            }
            files -= 1;
            let below = base.vpath(&relative);
            let length = below.as_str().len() + raw.to_bytes().len();
            if length > MAX_PATH_BYTES || length > names {
                left_out = Some("it held files that are nested too deeply".to_owned());
                continue;
            }
            names -= length;
            let Some(name) = raw.to_str().ok().filter(|name| is_component(name)) else {
                let child = below.child(&raw.to_string_lossy().replace(['/', '\\'], "_"));
                let version = FileVersion::unrecorded("its name cannot be kept");
                found.push(by_agent(child, version, FileVersion::Absent));
                continue;
            };
            let child = below.child(name);
            let seen = read_state(&child, &directory, OsStr::new(name), ReadLimits::up_to(limits.max_file.min(bytes)))?;
            match &seen.version {
                FileVersion::Absent => continue,
                FileVersion::File { size, stored: true, .. } => bytes = bytes.saturating_sub(*size),
                FileVersion::Directory { .. } if relative.is_empty() => todo.push(name.to_owned()),
                FileVersion::Directory { .. } => todo.push(format!("{relative}/{name}")),
                _ => {}
            }
            tx.put(&seen.version, &seen.content)?;
            found.push(by_agent(child, seen.version, FileVersion::Absent));
        }
    }
    if let Some(reason) = left_out {
        own.before = FileVersion::unrecorded(reason);
    }
    found.push(own);
    Ok(found)
}
