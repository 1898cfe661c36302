//! Protected places that appear while a command runs.
//!
//! A mount keeps what is there when a command starts. Where nothing is there is nothing to mount on, and an empty file put
//! there for the time of the command would be in the way of `git status`, `git clone` and whoever lists the directory. So the
//! places are looked for before and after, and what appeared gets another name, under which it steers nobody.
//!
//! File tools change such places too, with a person's leave, also while a command runs. Where something new takes the place of
//! a file, the mount is gone with the old one; so what a running command may not write is written
//! in place.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, fchmod, fstat, openat, renameat_with, statat};
use rustix::io::Errno;

use super::SandboxPolicy;
use crate::VPath;
use crate::permissions::{AccessMode, Operation, Permissions, Place, ProtectedPlaces};
use crate::shell::Moved;

/// What is put behind the name of what a command made.
const SUFFIX: &str = "from-command";
/// Names that are tried: those that say which one it is, then such as nobody guesses.
const NUMBERED: usize = 9;
const MOST_NAMES: usize = 64;
/// What an owner needs to rename in a directory.
const CHANGED_BY_OWNER: Mode = Mode::WUSR.union(Mode::XUSR);
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What commands that run now found: what appears while one of them runs is nothing that another found.
static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());
/// What file tools wrote to places that a person is asked about.
static APPROVED: Mutex<BTreeMap<Entry, Content>> = Mutex::new(BTreeMap::new());

/// What commands made and could not be given another name.
static LEFT: Mutex<BTreeSet<(Directory, PathBuf)>> = Mutex::new(BTreeSet::new());

/// The device and the inode of a directory.
type Directory = (u64, u64);
/// The same, and a name in it.
type Entry = (u64, u64, OsString);
/// What changes with every change of a file: device, inode, size and time of the last change of either.
type Content = (u64, u64, i64, i64, u64);

#[derive(Debug)]
struct Running {
    id: u64,
    root: Directory,
    before: BTreeSet<PathBuf>,
    closed: Closed,
}

/// What a command may not write in a workspace.
#[derive(Debug)]
struct Closed {
    places: ProtectedPlaces,
    paths: Vec<VPath>,
    rules: Vec<Permissions>,
}

impl Closed {
    fn has(&self, path: &VPath) -> bool {
        let by_rules = |rules: &Permissions| rules.decide(Operation::Write, path).mode != AccessMode::Allow;
        self.places.decide(path).mode != AccessMode::Allow
            || self.paths.iter().any(|closed| path.starts_with(closed))
            || self.rules.iter().any(by_rules)
    }
}

/// The protected places of a workspace as they were when a command started.
#[derive(Debug)]
pub(crate) struct Appeared {
    id: u64,
    root: OwnedFd,
    /// Which directory that is.
    this: Directory,
    places: Vec<VPath>,
    /// What was moved and nobody was told of.
    moved: Mutex<Vec<Moved>>,
}

/// Something that is at a place, by its path below the root.
struct Found {
    path: PathBuf,
    parent: OwnedFd,
    name: OsString,
}

impl Appeared {
    /// Looks at the places before a command starts.
    pub(crate) fn begin(root: &Path, policy: &SandboxPolicy) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let protected = &policy.protected_places;
        let places = protected.iter().filter(|place| place.mode != AccessMode::Allow);
        let places = places.filter_map(|place| match &place.place {
            Place::At(path) => Some(path.clone()),
            Place::Named(_) => None,
        });
        let root = openat(CWD, root, DIRECTORY, Mode::empty())?;
        let this = fstat(&root).map(|found| (device(&found), found.st_ino))?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let start = Self { id, root, this, places: places.collect(), moved: Mutex::default() };
        let closed = Closed {
            places: protected.clone(),
            paths: policy.protected.iter().chain(&policy.hidden).cloned().collect(),
            rules: policy.rules.clone(),
        };
        let mut running = lock(&RUNNING);
        let mut before = BTreeSet::new();
        let found = start.find()?;
        let mut left = lock(&LEFT);
        left.retain(|(root, path)| *root != this || found.iter().any(|found| found.path == *path));
        for found in found {
            let made = left.contains(&(this, found.path.clone()))
                || running.iter().any(|other| other.root == this && !other.before.contains(&found.path));
            if found.is_approved() || !made {
                before.insert(found.path);
            }
        }
        drop(left);
        running.push(Running { id: start.id, root: this, before, closed });
        Ok(start)
    }

    /// Gives what appeared since, and what no file tool wrote, another name. Says so once, with what was moved before.
    pub(crate) fn moved(&self) -> Vec<Moved> {
        self.move_away();
        std::mem::take(&mut lock(&self.moved))
    }

    /// Gives what appeared since, and what no file tool wrote, another name.
    pub(crate) fn move_away(&self) {
        // What cannot be listed now was listed before: nothing can be said of it, nor done with it.
        let found = self.find().unwrap_or_default();
        let before = |found: &Found| {
            lock(&RUNNING).iter().any(|running| running.id == self.id && running.before.contains(&found.path))
        };
        let appeared = found.into_iter().filter(|found| !before(found) && !found.is_approved());
        let moved: Vec<_> = appeared.filter_map(|found| found.move_away(self.this)).collect();
        lock(&self.moved).extend(moved);
    }

    fn find(&self) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        for place in &self.places {
            look(&self.root, Path::new(""), place.components().collect::<Vec<_>>().as_slice(), &mut found)?;
        }
        Ok(found)
    }
}

impl Drop for Appeared {
    fn drop(&mut self) {
        lock(&RUNNING).retain(|running| running.id != self.id);
    }
}

impl Found {
    fn is_approved(&self) -> bool {
        let Ok(parent) = fstat(&self.parent) else { return false };
        let Ok(there) = statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW) else { return false };
        let entry = (device(&parent), parent.st_ino, self.name.clone());
        lock(&APPROVED).get(&entry) == Some(&content(&there))
    }

    /// None where it is gone.
    fn move_away(&self, root: Directory) -> Option<Moved> {
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

    /// Gives it a name that is free; gives the name. A directory that a command made read-only becomes that again.
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
        for number in 1..=MOST_NAMES {
            let mut name = self.name.clone();
            name.push(match number {
                1 if !flags.is_empty() => format!(".{SUFFIX}"),
                2..=NUMBERED if !flags.is_empty() => format!(".{SUFFIX}-{number}"),
                _ => format!(".{SUFFIX}-{:016x}", fastrand::u64(..)),
            });
            match renameat_with(&self.parent, &self.name, &self.parent, &name, flags) {
                Ok(()) => return Ok(name),
                Err(Errno::EXIST) => {}
                // A file system that cannot say whether a name is free.
                Err(Errno::INVAL | Errno::NOSYS) if !flags.is_empty() => flags = RenameFlags::empty(),
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }
}

/// Changes a file as a file tool does, with what is to be done where a running command may not write it: to write it in
/// place. No command starts meanwhile, so none is without its mount.
pub(crate) fn change<T>(root: impl AsFd, path: &VPath, change: impl FnOnce(bool) -> T) -> T {
    let running = lock(&RUNNING);
    let this = if running.is_empty() { None } else { fstat(root).ok() };
    let this = this.map(|found| (device(&found), found.st_ino));
    change(running.iter().any(|running| Some(running.root) == this && running.closed.has(path)))
}

/// Forgets that something was at a path before the commands started that run now: a file tool has removed it.
pub(crate) fn forget(root: impl AsFd, path: &VPath) {
    let mut running = lock(&RUNNING);
    let Some(found) = (if running.is_empty() { None } else { fstat(root).ok() }) else { return };
    let this = (device(&found), found.st_ino);
    for running in running.iter_mut().filter(|running| running.root == this) {
        running.before.remove(Path::new(path.relative()));
    }
}

/// Remembers what a file tool has just written to a place that a person was asked about.
pub(crate) fn approve(directory: impl AsFd, name: &OsStr) {
    let Ok(parent) = fstat(&directory) else { return };
    let Ok(there) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    lock(&APPROVED).insert((device(&parent), parent.st_ino, name.to_owned()), content(&there));
}

/// Adds what is at a path, whichever of its letters are capitals. Links on the way are not followed: what they lead to is
/// not at this path.
fn look(directory: &OwnedFd, above: &Path, names: &[&str], found: &mut Vec<Found>) -> io::Result<()> {
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
            look(&below, &path, rest, found)?;
        }
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
fn device(found: &rustix::fs::Stat) -> u64 {
    found.st_dev as u64
}

#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
fn content(found: &rustix::fs::Stat) -> Content {
    (device(found), found.st_ino, found.st_size, found.st_ctime as i64, found.st_ctime_nsec as u64)
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
