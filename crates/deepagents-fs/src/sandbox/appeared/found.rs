//! Files found at protected places, and their renaming.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, RenameFlags, fchmod, fstat, openat, readlinkat, renameat_with};
use rustix::io::Errno;

use super::{APPROVED, DIRECTORY, Directory, LEFT, entry_at, lock};
use crate::shell::Moved;

/// Suffix of the new name of a file that a command created.
const SUFFIX: &str = "from-command";
/// Number of names tried with a counter, before random ones.
const MAX_NUMBERED: usize = 9;
const MAX_NAMES: usize = 64;
/// Permissions that the owner needs to rename files in a directory.
const CHANGED_BY_OWNER: Mode = Mode::WUSR.union(Mode::XUSR);

/// A file at a place, by its path below the root.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) parent: OwnedFd,
    pub(super) name: OsString,
}

impl Found {
    /// Returns the target if it is a link.
    pub(super) fn link(&self) -> Option<CString> {
        readlinkat(&self.parent, &self.name, Vec::new()).ok()
    }

    pub(super) fn is_approved(&self) -> bool {
        let found = entry_at(&self.parent, &self.name);
        found.is_ok_and(|(entry, content)| lock(&APPROVED).get(&entry) == Some(&content))
    }

    /// Renames the file; `None` if it no longer exists.
    pub(super) fn rename_appeared(&self, root: Directory) -> Option<Moved> {
        let to = self.rename();
        if matches!(to, Err(Errno::NOENT)) {
            return None;
        }
        if to.is_err() {
            lock(&LEFT).insert((root, self.path.clone()));
        }
        let to = to.ok().map(|name| shown(&self.path.with_file_name(name)));
        Some(Moved { from: shown(&self.path), to })
    }

    /// Renames the file to an unused name and returns that. If a command made the directory read-only, makes it
    /// writable for the time of the rename.
    fn rename(&self) -> Result<OsString, Errno> {
        match self.rename_to_free() {
            Err(Errno::ACCESS) => {
                let mode = Mode::from_raw_mode(fstat(&self.parent)?.st_mode);
                fchmod(&self.parent, mode | CHANGED_BY_OWNER)?;
                let to = self.rename_to_free();
                fchmod(&self.parent, mode)?;
                to
            }
            to => to,
        }
    }

    fn rename_to_free(&self) -> Result<OsString, Errno> {
        let mut flags = RenameFlags::NOREPLACE;
        for number in 1..=MAX_NAMES {
            let mut name = self.name.clone();
            name.push(match number {
                1 if !flags.is_empty() => format!(".{SUFFIX}"),
                2..=MAX_NUMBERED if !flags.is_empty() => format!(".{SUFFIX}-{number}"),
                _ => format!(".{SUFFIX}-{:016x}", fastrand::u64(..)),
            });
            match renameat_with(&self.parent, &self.name, &self.parent, &name, flags) {
                Ok(()) => return Ok(name),
                Err(Errno::EXIST) => {}
                // The file system cannot rename without replacing.
                Err(Errno::INVAL | Errno::NOSYS) if !flags.is_empty() => flags = RenameFlags::empty(),
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }
}

/// Adds the files at a path, ignoring ASCII case. Does not follow links on the way, since their targets are at other
/// paths.
pub(super) fn find_at(directory: &OwnedFd, above: &Path, names: &[&str], found: &mut Vec<Found>) -> io::Result<()> {
    let Some((first, rest)) = names.split_first() else { return Ok(()) };
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if !name.eq_ignore_ascii_case(first) {
            continue;
        }
        let path = above.join(name);
        if rest.is_empty() {
            found.push(Found { path, parent: directory.try_clone()?, name: name.to_owned() });
        } else if let Ok(below) = openat(directory, name, DIRECTORY, Mode::empty()) {
            find_at(&below, &path, rest, found)?;
        }
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
