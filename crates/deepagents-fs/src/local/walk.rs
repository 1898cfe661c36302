//! Walks a tree on several threads, opening each directory below the root without following links.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use super::open::{SAFE, entries, failed};
use crate::path::is_component;
use crate::search::{Control, Ignores, MAX_FILES, MAX_PATH_BYTES, MAX_PATHS_BYTES, Pattern, Progress, WalkErrors};
use crate::{FsError, VPath};

/// The directory being searched.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) fd: OwnedFd,
    /// Its workspace path.
    pub(super) path: VPath,
    pub(super) kernel: bool,
}

impl Base {
    /// Opens a relative path below it, no component of which may be a link.
    pub(super) fn open(&self, relative: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | SAFE | OFlags::NOFOLLOW;
        let relative = if relative.is_empty() { "." } else { relative };
        #[cfg(target_os = "linux")]
        if self.kernel {
            use rustix::fs::{ResolveFlags, openat2};
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            match openat2(&self.fd, relative, flags, Mode::empty(), resolve) {
                Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG | Errno::AGAIN) => {}
                result => return result,
            }
        }
        let mut names = relative.split('/').peekable();
        let mut directory: Option<OwnedFd> = None;
        while let Some(name) = names.next() {
            let from = directory.as_ref().map_or(self.fd.as_fd(), OwnedFd::as_fd);
            if names.peek().is_none() {
                return openat(from, name, flags, Mode::empty());
            }
            let through = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | SAFE;
            directory = Some(openat(from, name, through, Mode::empty())?);
        }
        Err(Errno::NOENT)
    }

    pub(super) fn vpath(&self, relative: &str) -> VPath {
        if relative.is_empty() { self.path.clone() } else { self.path.child(relative) }
    }
}

/// Maximum number of bytes shown of a path that is too long.
const MAX_SHOWN_BYTES: usize = 500;

/// Returns the number of threads that a search uses.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(8)
}

/// Depth from which directories wait until no others are left, so that one branch does not use up all the time.
const DEFERRED_DEPTH: usize = 64;
/// Maximum number of directories held open as parents of others.
const MAX_OPEN_DIRECTORIES: usize = 64;

struct Visit {
    relative: String,
    /// Depth below the base.
    depth: usize,
    /// The open parent directory, if the path to it is long.
    parent: Option<Arc<Held>>,
    progress: Arc<Progress>,
    ignores: Ignores,
}

/// An open directory, counted against `MAX_OPEN_DIRECTORIES`.
struct Held {
    fd: OwnedFd,
    _count: Arc<()>,
}

struct Queue {
    todo: VecDeque<Visit>,
    /// Deep directories.
    deep: VecDeque<Visit>,
    /// Total bytes of their paths.
    bytes: usize,
    busy: usize,
}

/// Result of a walk: files relative to its base, sorted.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) files: Vec<String>,
    pub(super) errors: WalkErrors,
    /// Whether there are more files than memory limits allow.
    pub(super) cut: bool,
}

/// Finds the files below a directory that match a pattern.
pub(super) fn walk(base: &Base, pattern: &Pattern, ignores: Option<&Ignores>, control: &Control) -> Walked {
    let first = Visit {
        relative: String::new(),
        depth: 0,
        parent: None,
        progress: Arc::new(pattern.start()),
        ignores: ignores.cloned().unwrap_or_default(),
    };
    let walker = Walker {
        base,
        pattern,
        gitignore: ignores.is_some(),
        control,
        queue: Mutex::new(Queue { todo: VecDeque::from([first]), deep: VecDeque::new(), bytes: 0, busy: 0 }),
        ready: Condvar::new(),
        held: Arc::default(),
        found: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        full: AtomicBool::new(false),
    };
    let mut out = Walked::default();
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads()).map(|_| scope.spawn(|| walker.run())).collect();
        out = walker.run();
        for other in others {
            // A thread that panicked contributes nothing; the panic hook reports the panic itself.
            let Ok(found) = other.join() else { continue };
            out.files.extend(found.files);
            out.errors.extend(found.errors);
        }
    });
    out.cut = walker.full.load(Ordering::Relaxed);
    out.files.sort_unstable();
    out
}

struct Walker<'a> {
    base: &'a Base,
    pattern: &'a Pattern,
    gitignore: bool,
    control: &'a Control,
    queue: Mutex<Queue>,
    ready: Condvar,
    /// Its reference count is the number of directories held open.
    held: Arc<()>,
    /// Number of files found so far by all threads.
    found: AtomicUsize,
    /// Total bytes of their paths.
    bytes: AtomicUsize,
    full: AtomicBool,
}

impl Walker<'_> {
    fn run(&self) -> Walked {
        let mut out = Walked::default();
        let mut below = Vec::new();
        while let Some(visit) = self.take() {
            self.visit(&visit, &mut out, &mut below);
            self.give(&mut below);
        }
        out
    }

    /// Returns whether the deadline has passed or a memory limit was reached.
    fn ended(&self) -> bool {
        self.full.load(Ordering::Relaxed) || self.control.stopped()
    }

    fn take(&self) -> Option<Visit> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.ended() {
                self.ready.notify_all();
                return None;
            }
            // Last in, first out, so that the queue stays short; deep directories take turns.
            let next = queue.todo.pop_back();
            if let Some(visit) = next.or_else(|| queue.deep.pop_front()) {
                queue.busy += 1;
                queue.bytes = queue.bytes.saturating_sub(visit.relative.len());
                return Some(visit);
            }
            if queue.busy == 0 {
                self.ready.notify_all();
                return None;
            }
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give(&self, below: &mut Vec<Visit>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.busy -= 1;
        let more = below.len();
        queue.bytes += below.iter().map(|visit| visit.relative.len()).sum::<usize>();
        for visit in below.drain(..) {
            if visit.depth < DEFERRED_DEPTH { queue.todo.push_back(visit) } else { queue.deep.push_back(visit) }
        }
        if queue.todo.len() + queue.deep.len() > MAX_FILES || queue.bytes > MAX_PATHS_BYTES {
            self.full.store(true, Ordering::Relaxed);
        }
        if more > 1 || queue.busy == 0 {
            self.ready.notify_all();
        } else if more == 1 {
            self.ready.notify_one();
        }
    }

    fn too_deep(&self, relative: &str) -> FsError {
        // Show only as much of the path as a person would read.
        let shown = relative.split('/').scan(0, |length, name| {
            *length += name.len();
            (*length <= MAX_SHOWN_BYTES).then_some(name)
        });
        let path = self.base.vpath(&shown.collect::<Vec<_>>().join("/"));
        let reason = format!("what lies deeper than {MAX_PATH_BYTES} bytes of path is not looked at");
        FsError::io(&path, std::io::ErrorKind::InvalidFilename, &reason)
    }

    fn visit(&self, visit: &Visit, out: &mut Walked, below: &mut Vec<Visit>) {
        if let Err(errno) = self.read(visit, out, below) {
            // Deleted, or replaced by a link: treat it as never listed.
            if !matches!(errno, Errno::NOENT | Errno::LOOP | Errno::NOTDIR) {
                out.errors.push(failed(&self.base.vpath(&visit.relative), errno));
            }
        }
    }

    fn read(&self, visit: &Visit, out: &mut Walked, below: &mut Vec<Visit>) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = match (&visit.parent, visit.relative.rsplit('/').next()) {
            (Some(parent), Some(name)) => openat(&parent.fd, name, flags | SAFE | OFlags::NOFOLLOW, Mode::empty())?,
            _ => self.base.open(&visit.relative, flags)?,
        };
        let holds = visit.depth + 1 >= DEFERRED_DEPTH && Arc::strong_count(&self.held) <= MAX_OPEN_DIRECTORIES;
        let held = if holds { fd.try_clone().ok() } else { None };
        let held = held.map(|fd| Arc::new(Held { fd, _count: self.held.clone() }));
        let here = self.gitignore.then(|| self.base.vpath(&visit.relative));
        let ignores = match &here {
            Some(here) => {
                let (ignores, error) = read_gitignore(&fd, here, &visit.ignores);
                error.into_iter().for_each(|error| out.errors.push(error));
                ignores
            }
            None => Ignores::default(),
        };
        let join = |name: &str| {
            let mut path = String::with_capacity(visit.relative.len() + name.len() + 1);
            if !visit.relative.is_empty() {
                path.push_str(&visit.relative);
                path.push('/');
            }
            path.push_str(name);
            path
        };
        let mut bytes = 0;
        for (number, entry) in entries(Dir::new(fd)?).enumerate() {
            let entry = entry?;
            let raw = entry.file_name();
            // A directory may be so large that the deadline passes before its end.
            if number % 256 == 255 && self.ended() || below.len() > MAX_FILES || bytes > MAX_PATHS_BYTES {
                break;
            }
            let Some(name) = raw.to_str().ok().filter(|name| is_component(name)) else {
                out.errors.unnameable += 1;
                continue;
            };
            let mut file_type = entry.file_type();
            if file_type == FileType::Unknown {
                let relative = join(name);
                let Ok(stat) = statat(&self.base.fd, relative.as_str(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
                file_type = FileType::from_raw_mode(stat.st_mode);
            }
            let hidden = |directory| here.as_ref().is_some_and(|here| ignores.hides(&here.child(name), directory));
            match file_type {
                FileType::RegularFile if self.pattern.ends(&visit.progress, name) && !hidden(false) => {
                    let path = join(name);
                    let bytes = self.bytes.fetch_add(path.len(), Ordering::Relaxed);
                    out.files.push(path);
                    if self.found.fetch_add(1, Ordering::Relaxed) >= MAX_FILES || bytes > MAX_PATHS_BYTES {
                        self.full.store(true, Ordering::Relaxed);
                        break;
                    }
                }
                FileType::Directory => {
                    let progress = self.pattern.enter(&visit.progress, name);
                    if !progress.is_dead() && !hidden(true) {
                        if visit.relative.len() + name.len() > MAX_PATH_BYTES {
                            out.errors.push(self.too_deep(&visit.relative));
                            continue;
                        }
                        let progress =
                            if progress == *visit.progress { visit.progress.clone() } else { Arc::new(progress) };
                        let relative = join(name);
                        bytes += relative.len();
                        let (depth, parent) = (visit.depth + 1, held.clone());
                        below.push(Visit { relative, depth, parent, progress, ignores: ignores.clone() });
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the rules that apply in a directory, including those of its own `.gitignore`.
pub(super) fn read_gitignore(directory: &OwnedFd, path: &VPath, above: &Ignores) -> (Ignores, Option<FsError>) {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | SAFE;
    let Ok(fd) = openat(directory, c".gitignore", flags, Mode::empty()) else { return (above.clone(), None) };
    let mut content = Vec::new();
    let read = std::io::Read::read_to_end(&mut std::io::Read::take(std::fs::File::from(fd), 1 << 20), &mut content);
    if read.is_ok() { above.enter(path, &content) } else { (above.clone(), None) }
}
