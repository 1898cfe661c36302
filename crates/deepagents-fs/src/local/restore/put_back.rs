//! Restores a single change without following links.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::ErrorKind;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, fchmod, mkdirat, openat, symlinkat, unlinkat};
use rustix::io::Errno;

use crate::local::Root;
use crate::local::found_state::{FoundState, ReadLimits, read_state};
use crate::local::open::{At, DIRECTORY, allow, failed};
use crate::local::record::Recorder;
use crate::local::write::Target;
use crate::sandbox::appeared::forget;
use crate::undo::{FileChange, FileVersion, OnDisk, Tx, UndoError};
use crate::{FsError, VPath, WriteMode};

impl Root {
    /// Returns what is on disk at a path, no component of which may be a link.
    pub(super) fn on_disk(&self, path: &VPath, max_file: u64, store: Option<&Tx<'_>>) -> Result<OnDisk, FsError> {
        match self.open_parent(path, false)? {
            Ok((directory, name)) => {
                let seen = read_state(path, &directory, OsStr::new(&name), ReadLimits::up_to(max_file))?;
                store.map_or(Ok(()), |tx| tx.put(&seen.version, &seen.content))?;
                Ok(OnDisk::At(seen.version))
            }
            Err(in_the_way) => Ok(in_the_way),
        }
    }

    /// Opens the parent directory of a path without following links, and returns it with the name; otherwise returns
    /// what is there instead.
    fn open_parent(&self, path: &VPath, make: bool) -> Result<Result<(OwnedFd, String), OnDisk>, FsError> {
        let Some(name) = path.name() else { return Err(FsError::Fixed(path.clone())) };
        let mut directory = self.fd.try_clone().at(path)?;
        for above in path.ancestors_from_root() {
            let Some(name) = above.name() else { continue };
            if make {
                allow(Errno::EXIST, mkdirat(&directory, name, Mode::from_raw_mode(0o777))).at(path)?;
            }
            directory = match openat(&directory, name, DIRECTORY, Mode::empty()) {
                Ok(next) => next,
                Err(Errno::NOENT) => return Ok(Err(OnDisk::At(FileVersion::Absent))),
                Err(Errno::LOOP | Errno::NOTDIR) => return Ok(Err(OnDisk::Below(above))),
                Err(errno) => return Err(failed(path, errno)),
            };
        }
        Ok(Ok((directory, name.to_owned())))
    }

    /// Makes one change, if the path is still as it was when planned.
    pub(super) fn put_back(&self, recorder: &Recorder, change: &FileChange) -> Result<(), FsError> {
        let path = &change.path;
        let changed = || FsError::Changed(path.clone());
        let makes = change.to != FileVersion::Absent;
        let (directory, name) = match self.open_parent(path, makes)? {
            Ok(place) => place,
            Err(OnDisk::At(_)) if !makes => return Ok(()),
            Err(_) => return Err(changed()),
        };
        let name = OsStr::new(&name);
        let limits = ReadLimits { hash: recorder.database.options.max_file, content: 0 };
        let FoundState { version, host, .. } = read_state(path, &directory, name, limits)?;
        if !version.same(&change.now) {
            return Err(changed());
        }
        let replaces = matches!((&change.now, &change.to), (FileVersion::File { .. }, FileVersion::File { .. }));
        if !replaces && change.now != FileVersion::Absent {
            if change.now.is_directory() {
                match unlinkat(&directory, name, AtFlags::REMOVEDIR) {
                    Ok(()) => {}
                    // Someone put something into the directory, so it stays.
                    Err(Errno::NOTEMPTY | Errno::EXIST) if !makes => return Ok(()),
                    Err(errno) => return Err(failed(path, errno)),
                }
            } else {
                self.unlink(path, &directory, name, host.as_ref())?;
                forget(&self.fd, path);
            }
        }
        match &change.to {
            FileVersion::Absent => Ok(()),
            FileVersion::Directory { mode } => {
                // Nobody else may look inside until it has its final permissions.
                let bits = Mode::from_raw_mode(mode.map_or(0o777, |_| 0o700));
                allow(Errno::EXIST, mkdirat(&directory, name, bits)).at(path)
            }
            FileVersion::Link { target } => symlinkat(target.as_str(), &directory, name).at(path),
            FileVersion::File { hash, mode, .. } => {
                let content = recorder.database.read(|tx| tx.content(hash));
                let content =
                    content.map_err(|error: UndoError| FsError::io(path, ErrorKind::Other, error.to_string()))?;
                let content = content
                    .flatten()
                    .ok_or_else(|| FsError::io(path, ErrorKind::NotFound, "its content is no longer stored"))?;
                let modified = jiff::Timestamp::now();
                let (directory, altered) = (&directory, &Cell::default());
                let target = Target { path, real: path, directory, name, modified, altered };
                let based = if replaces { host } else { None };
                self.replace(&target, &content, &WriteMode::Overwrite, Some(&based), Some(*mode)).map(drop)
            }
            FileVersion::Unrecorded { reason } => Err(FsError::io(path, ErrorKind::NotFound, reason.clone())),
        }
    }

    /// Gives a restored directory its recorded permissions once its contents are complete. If that fails, only the
    /// owner has access.
    pub(super) fn close_directory(&self, change: &FileChange) {
        let FileVersion::Directory { mode: Some(bits) } = change.to else { return };
        let Ok(Ok((above, name))) = self.open_parent(&change.path, false) else { return };
        if let Ok(directory) = openat(&above, &*name, DIRECTORY, Mode::empty()) {
            let _ = fchmod(&directory, Mode::from_raw_mode(bits));
        }
    }
}
