//! Protected places that appear while a command runs.
//!
//! A mount protects what exists when a command starts. Where nothing exists there is nothing to mount on, and an empty
//! placeholder file would disturb `git status`, `git clone` and anyone who lists the directory. So protected places are
//! listed before and after the command, and whatever appeared is renamed so that it has no effect.
//!
//! Links cannot be mounted on either. A link that was changed or removed is put back.
//!
//! File tools may change such places too, with a person's approval, even while a command runs. Replacing a file would
//! also remove its mount, so files that a running command may not write are written in place.

mod found;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, statat, symlinkat};
use rustix::io::Errno;

use super::{Git, SandboxPolicy};
use crate::VPath;
use crate::permissions::{
    AccessMode, Operation, Permissions, ProtectedPlaces, UserGit, leads, repositories_above, run_from,
};
use crate::shell::Moved;
use found::{Found, find_at};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// State recorded by the commands that are now running. What appears while one of them runs does not count as existing
/// for another that starts later.
static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());
/// What file tools wrote to places that require a person's approval, while a command runs or has left something.
static APPROVED: Mutex<BTreeMap<Entry, Content>> = Mutex::new(BTreeMap::new());

/// What commands created and could not be renamed.
static LEFT: Mutex<BTreeSet<(Directory, PathBuf)>> = Mutex::new(BTreeSet::new());

/// Device and inode of a directory.
type Directory = (u64, u64);
/// Device and inode of a directory, and a name in it.
type Entry = (Directory, OsString);
/// Changes with every change of a file: device, inode, size, and the seconds and nanoseconds of its change time.
type Content = (u64, u64, i64, i64, u64);

#[derive(Debug)]
struct Running {
    id: u64,
    root: Directory,
    before: BTreeSet<PathBuf>,
    /// Links among them, and links at the root with the name of a repository, with their targets.
    links: BTreeMap<PathBuf, CString>,
    closed: Closed,
}

/// Paths of a workspace that a command may not write.
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

/// Record of a workspace's protected places when a command started.
#[derive(Debug)]
pub(crate) struct Appeared {
    id: u64,
    root: OwnedFd,
    /// Identity of the root directory.
    this: Directory,
    places: Vec<VPath>,
    /// Renamed files not yet reported.
    moved: Mutex<Vec<Moved>>,
}

impl Appeared {
    /// Records the protected places before a command starts.
    pub(crate) fn begin(at: &Path, policy: &SandboxPolicy) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let protected = &policy.protected_places;
        let root = openat(CWD, at, DIRECTORY, Mode::empty())?;
        let this = identity(&root)?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut start = Self { id, root, this, places: protected.paths().cloned().collect(), moved: Mutex::default() };
        let led: BTreeSet<VPath> = start.places.iter().flat_map(|place| leads(at, place)).collect();
        let by_git: BTreeSet<PathBuf> = if policy.guards_git() {
            let (own, user) = (PathBuf::from(".git"), UserGit::read());
            std::iter::once(own).chain(repositories_above(at)).flat_map(|git| run_from(at, &git, &user)).collect()
        } else {
            BTreeSet::new()
        };
        let by_git = by_git.iter().filter_map(|path| VPath::try_from(path.to_str()?.to_owned()).ok());
        let by_git: Vec<VPath> = by_git.chain(led).collect();
        let closed = Closed {
            places: protected.clone(),
            paths: policy.protected.iter().chain(&policy.hidden).cloned().chain(by_git.clone()).collect(),
            rules: policy.rules.clone(),
        };
        start.places.extend(by_git);
        let mut running = lock(&RUNNING);
        let (mut before, mut links) = (BTreeSet::new(), BTreeMap::new());
        let found = start.find()?;
        // If a running command changed a link, the link to restore is the one recorded before that.
        let link = |found: &Found| {
            let mut others = running.iter().filter(|other| other.root == this);
            let link = others.find_map(|other| other.links.get(&found.path)).cloned();
            Some((found.path.clone(), link.or_else(|| found.link())?))
        };
        links.extend(start.named(policy)?.iter().filter_map(link));
        let mut left = lock(&LEFT);
        left.retain(|(root, path)| *root != this || found.iter().any(|found| found.path == *path));
        for found in found {
            let made = left.contains(&(this, found.path.clone()))
                || running.iter().any(|other| other.root == this && !other.before.contains(&found.path));
            if found.is_approved() || !made {
                links.extend(link(&found));
                before.insert(found.path);
            }
        }
        drop(left);
        running.push(Running { id: start.id, root: this, before, links, closed });
        Ok(start)
    }

    /// Renames what has appeared since, unless a file tool wrote it. Returns that together with earlier renames; each
    /// is reported once.
    pub(crate) fn moved(&self) -> Vec<Moved> {
        self.rename_appeared();
        self.take_moved()
    }

    /// Returns the renames that were not reported yet.
    pub(crate) fn take_moved(&self) -> Vec<Moved> {
        std::mem::take(&mut lock(&self.moved))
    }

    /// Renames what has appeared since, unless a file tool wrote it.
    pub(crate) fn rename_appeared(&self) {
        // The places could be listed at the start. If they cannot be now, nothing can be reported or done.
        let found = self.find().unwrap_or_default();
        let before = |found: &Found| {
            lock(&RUNNING).iter().any(|running| running.id == self.id && running.before.contains(&found.path))
        };
        let appeared = found.into_iter().filter(|found| !before(found) && !found.is_approved());
        let moved: Vec<_> = appeared.filter_map(|found| found.rename_appeared(self.this)).collect();
        let put_back = self.put_back();
        lock(&self.moved).extend(moved.into_iter().chain(put_back));
    }

    /// Restores links that have changed. Returns the files that were in their place, under their new names.
    fn put_back(&self) -> Vec<Moved> {
        let links = |running: &Running| (running.id == self.id).then(|| running.links.clone());
        let links = lock(&RUNNING).iter().find_map(links).unwrap_or_default();
        let mut moved = Vec::new();
        for (path, link) in links {
            let Some(found) = self.at(path) else { continue };
            if found.link().as_ref() == Some(&link) || found.is_approved() {
                continue;
            }
            moved.extend(found.rename_appeared(self.this));
            // If the file in the way could not be moved, that is already reported.
            let _ = symlinkat(&link, &found.parent, &found.name);
        }
        moved
    }

    /// Locates a path whose parent directory exists, without following links.
    fn at(&self, path: PathBuf) -> Option<Found> {
        let name = path.file_name()?.to_owned();
        let above = path.parent().into_iter().flat_map(Path::iter);
        let open = |parent: OwnedFd, name: &OsStr| openat(&parent, name, DIRECTORY, Mode::empty()).ok();
        let parent = above.into_iter().try_fold(self.root.try_clone().ok()?, open)?;
        Some(Found { path, parent, name })
    }

    /// Finds files at the root with a repository's name, if commands may not change repositories.
    fn named(&self, policy: &SandboxPolicy) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        for name in policy.protected_places.names() {
            if policy.git != Git::Writable || !name.eq_ignore_ascii_case(".git") {
                find_at(&self.root, Path::new(""), &[name], &mut found)?;
            }
        }
        Ok(found)
    }

    fn find(&self) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        for place in &self.places {
            find_at(&self.root, Path::new(""), place.components().collect::<Vec<_>>().as_slice(), &mut found)?;
        }
        Ok(found)
    }
}

impl Drop for Appeared {
    fn drop(&mut self) {
        let mut running = lock(&RUNNING);
        running.retain(|running| running.id != self.id);
        if running.is_empty() && lock(&LEFT).is_empty() {
            lock(&APPROVED).clear();
        }
    }
}

/// Runs a file tool's change of a path. `change` receives whether a running command may not write the path, in which
/// case it must write in place. No command starts meanwhile, so the mounts of a new command match the result.
pub(crate) fn change<T>(root: impl AsFd, path: &VPath, change: impl FnOnce(bool) -> T) -> T {
    let running = lock(&RUNNING);
    let this = if running.is_empty() { None } else { identity(root).ok() };
    change(running.iter().any(|running| Some(running.root) == this && running.closed.has(path)))
}

/// Forgets that a path existed when the running commands started, because a file tool has removed it.
pub(crate) fn forget(root: impl AsFd, path: &VPath) {
    let mut running = lock(&RUNNING);
    let Some(this) = (if running.is_empty() { None } else { identity(root).ok() }) else { return };
    for running in running.iter_mut().filter(|running| running.root == this) {
        running.before.remove(Path::new(path.relative()));
        running.links.remove(Path::new(path.relative()));
    }
}

/// Records what a file tool has just written with a person's approval.
pub(crate) fn approve(directory: impl AsFd, name: &OsStr) {
    // If no command runs and none has left anything, all that exists counts as existing before the next command.
    let is_needed = !lock(&RUNNING).is_empty() || !lock(&LEFT).is_empty();
    if let (true, Ok((entry, content))) = (is_needed, entry_at(directory, name)) {
        lock(&APPROVED).insert(entry, content);
    }
}

/// Identifies an open directory.
fn identity(directory: impl AsFd) -> Result<Directory, Errno> {
    fstat(directory).map(|found| (device(&found), found.st_ino))
}

/// Identifies what is at a name in a directory.
fn entry_at(directory: impl AsFd, name: &OsStr) -> Result<(Entry, Content), Errno> {
    let there = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(((identity(directory)?, name.to_owned()), content(&there)))
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
