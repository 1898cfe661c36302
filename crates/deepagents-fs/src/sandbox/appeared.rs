//! Protected places that appear while a command runs.
//!
//! A mount keeps what is there when a command starts. Where nothing is there is nothing to mount on, and an empty file put
//! there for the time of the command would be in the way of `git status`, `git clone` and whoever lists the directory. So the
//! places are looked for before and after, and what appeared gets another name, under which it steers nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, fstat, openat, renameat_with, statat};
use rustix::io::Errno;

use crate::VPath;
use crate::permissions::{AccessMode, Place, ProtectedPlaces};
use crate::shell::Moved;

/// What is put behind the name of what a command made.
const SUFFIX: &str = "from-command";
/// Names that are tried.
const MOST_NAMES: usize = 1000;
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What commands that run now found: what appears while one of them runs is nothing that another found.
static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());
/// What file tools wrote to places that a person is asked about.
static APPROVED: Mutex<BTreeMap<Entry, Content>> = Mutex::new(BTreeMap::new());

/// The device and the inode of a directory, and a name in it.
type Entry = (u64, u64, OsString);
/// What changes with every change of a file: device, inode, size and time of the last change of either.
type Content = (u64, u64, i64, i64, u64);

#[derive(Debug)]
struct Running {
    id: u64,
    root: (u64, u64),
    before: BTreeSet<PathBuf>,
}

/// The protected places of a workspace as they were when a command started.
#[derive(Debug)]
pub(crate) struct Appeared {
    id: u64,
    root: OwnedFd,
    places: Vec<VPath>,
    before: BTreeSet<PathBuf>,
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
    pub(crate) fn begin(root: &Path, protected: &ProtectedPlaces) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let places = protected.iter().filter(|place| place.mode != AccessMode::Allow);
        let places = places.filter_map(|place| match &place.place {
            Place::At(path) => Some(path.clone()),
            Place::Named(_) => None,
        });
        let root = openat(CWD, root, DIRECTORY, Mode::empty())?;
        let this = fstat(&root).map(|found| (device(&found), found.st_ino))?;
        let mut start = Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            root,
            places: places.collect(),
            before: BTreeSet::new(),
            moved: Mutex::default(),
        };
        let mut running = lock(&RUNNING);
        for found in start.find()? {
            let made = running.iter().any(|other| other.root == this && !other.before.contains(&found.path));
            if !made || found.is_approved() {
                start.before.insert(found.path);
            }
        }
        running.push(Running { id: start.id, root: this, before: start.before.clone() });
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
        let appeared = found.into_iter().filter(|found| !self.before.contains(&found.path) && !found.is_approved());
        let moved: Vec<_> = appeared.filter_map(|found| found.move_away()).collect();
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
    fn move_away(&self) -> Option<Moved> {
        for number in 1..=MOST_NAMES {
            let mut name = self.name.clone();
            name.push(if number == 1 { format!(".{SUFFIX}") } else { format!(".{SUFFIX}-{number}") });
            match renameat_with(&self.parent, &self.name, &self.parent, &name, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    let to = self.path.with_file_name(&name);
                    return Some(Moved { from: shown(&self.path), to: Some(shown(&to)) });
                }
                Err(Errno::NOENT) => return None,
                Err(Errno::EXIST) => {}
                Err(_) => break,
            }
        }
        Some(Moved { from: shown(&self.path), to: None })
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
