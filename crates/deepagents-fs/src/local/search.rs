//! Glob and grep on disk: a multi-threaded walk, then, for grep, a multi-threaded search of the files in order.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use grep_searcher::Searcher;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;

use super::LocalBackend;
use super::Root;
use super::open::{failed, stat_fd};
use super::walk::{Base, Walked, read_gitignore, threads, walk};
use crate::search::{
    Collector, Control, GlobOutcome, GlobQuery, GrepLine, GrepOutcome, GrepQuery, Ignores, LineMatcher, Scope,
    Truncation, Utf16Reader,
};
use crate::{FsError, Kind, VPath, classify};

/// Files smaller than this are read whole; larger ones are streamed.
const STREAMED_BYTES: usize = 1 << 20;
/// Number of files that a thread takes at a time.
const BATCH_FILES: usize = 64;
/// Bytes of found lines after which the rest of a batch is skipped.
const BATCH_BYTES: usize = 4 << 20;

impl LocalBackend {
    pub(super) async fn find(&self, query: &GlobQuery) -> Result<GlobOutcome, FsError> {
        let (control, pin) = (Control::new(query.scope.deadline), self.pin_of(&query.scope.path));
        let _stop = control.stop_on_drop();
        let scope = pin.map_or_else(|| query.scope.clone(), |pin| pin.scope(&query.scope));
        let inner = GlobQuery { scope, ..query.clone() };
        let found = self.at(&query.scope.path, move |root, _| find(root, &inner, &control)).await?;
        Ok(if let Some(pin) = pin { found.map_paths(|path| pin.back(path)) } else { found })
    }

    pub(super) async fn search(&self, query: &GrepQuery) -> Result<GrepOutcome, FsError> {
        let (control, pin) = (Control::new(query.scope.deadline), self.pin_of(&query.scope.path));
        let _stop = control.stop_on_drop();
        let scope = pin.map_or_else(|| query.scope.clone(), |pin| pin.scope(&query.scope));
        let inner = GrepQuery { scope, ..query.clone() };
        let found = self.at(&query.scope.path, move |root, _| search(root, &inner, &control)).await?;
        Ok(if let Some(pin) = pin { found.map_paths(|path| pin.back(path)) } else { found })
    }
}

/// What the scope's path resolves to.
enum Start {
    Directory(Base),
    File(OwnedFd),
}

fn start(root: &Root, scope: &Scope) -> Result<Start, FsError> {
    let path = &scope.path;
    let fd = root.open(path, OFlags::RDONLY, root.links)?;
    match stat_fd(path, &fd)?.kind {
        Kind::Directory => {
            Ok(Start::Directory(Base { fd, path: path.clone(), kernel: root.options.kernel_resolution }))
        }
        Kind::File => Ok(Start::File(fd)),
        Kind::Other => Err(FsError::Special(path.clone())),
    }
}

/// Returns the ignore rules from the directories above a scope, if requested.
fn ignores(root: &Root, scope: &Scope) -> Option<Ignores> {
    if !scope.respect_gitignore {
        return None;
    }
    let open = |directory: &VPath| root.open(directory, OFlags::RDONLY | OFlags::DIRECTORY, root.links);
    let enter = |ignores: Ignores, directory: VPath| match open(&directory) {
        // The walk reports the errors in the scope's own directory.
        Ok(fd) => read_gitignore(&fd, &directory, &ignores).0,
        Err(_) => ignores,
    };
    Some(scope.path.ancestors_from_root().fold(Ignores::default(), enter))
}

fn find(root: &Root, query: &GlobQuery, control: &Control) -> Result<GlobOutcome, FsError> {
    let GlobQuery { pattern, scope, max_files } = query;
    let base = match start(root, scope)? {
        Start::Directory(base) => base,
        Start::File(_) => {
            let path = scope.path.clone();
            let named = pattern.matches(path.name().unwrap_or_default()) && scope.sees(&path);
            return Ok(GlobOutcome { files: if named { vec![path] } else { Vec::new() }, ..GlobOutcome::default() });
        }
    };
    let Walked { files, errors, cut } = walk(&base, pattern, ignores(root, scope).as_ref(), control);
    let mut out = GlobOutcome { errors, truncation: cut.then_some(Truncation::Limit), ..GlobOutcome::default() };
    for file in files {
        // A filter may be slow.
        if scope.visible.is_some() && control.stopped() {
            break;
        }
        let path = base.vpath(&file);
        if !scope.sees(&path) {
            continue;
        }
        if max_files.is_some_and(|max| out.files.len() >= max) {
            out.truncation = Some(Truncation::Limit);
            break;
        }
        out.files.push(path);
    }
    if control.is_late() {
        out.truncation = Some(Truncation::Deadline);
    }
    Ok(out)
}

/// How often a waiting thread checks again whether it may continue.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

fn search(root: &Root, query: &GrepQuery, control: &Control) -> Result<GrepOutcome, FsError> {
    let (matcher, pattern) = (&LineMatcher::new(query)?, &query.files()?);
    let mut collector = Collector::new(query.max_count);
    let base = match start(root, &query.scope)? {
        Start::Directory(base) => base,
        Start::File(fd) => {
            let path = &query.scope.path;
            let wanted = query.glob.is_none() || pattern.matches(path.name().unwrap_or_default());
            let mut found = GrepOutcome::default();
            if wanted && query.scope.sees(path) {
                let mut worker = Worker { matcher, searcher: matcher.searcher(), buffer: Vec::new(), control };
                worker.lines(Ok(fd), &|| path.clone(), &mut found);
            }
            collector.add(0, found);
            return Ok(collector.finish(control.is_late()));
        }
    };
    let Walked { files, errors, cut } = walk(&base, pattern, ignores(root, &query.scope).as_ref(), control);
    let (batches, next) = (files.chunks(BATCH_FILES).collect::<Vec<_>>(), AtomicUsize::new(0));
    let (results, added) = (Mutex::new(collector), Condvar::new());
    let collected = || results.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        let mut worker = Worker { matcher, searcher: matcher.searcher(), buffer: Vec::new(), control };
        while !control.stopped() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = batches.get(number) else { break };
            // Results ahead of an earlier batch must be held in memory until that batch is done.
            let mut held = collected();
            while held.is_crowded(number) && !control.stopped() {
                held = added
                    .wait_timeout(held, CHECK_INTERVAL)
                    .map_or_else(|poisoned| poisoned.into_inner().0, |held| held.0);
            }
            drop(held);
            let (mut found, mut weight) = (GrepOutcome::default(), 0);
            for file in *batch {
                if control.stopped() {
                    break;
                }
                if weight > BATCH_BYTES {
                    found.truncation = Some(Truncation::Limit);
                    break;
                }
                let path = || base.vpath(file);
                if query.scope.visible.is_some() && !query.scope.sees(&path()) {
                    continue;
                }
                let before = found.files.len();
                worker.below(&base, file, path, &mut found);
                weight +=
                    found.files.iter().skip(before).flat_map(|file| &file.lines).map(GrepLine::weight).sum::<usize>();
            }
            if collected().add(number, found) {
                control.stop();
            }
            added.notify_all();
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads().min(batches.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut out = results.into_inner().unwrap_or_else(PoisonError::into_inner).finish(control.is_late());
    let found = std::mem::replace(&mut out.errors, errors);
    out.errors.extend(found);
    out.truncation = out.truncation.or(cut.then_some(Truncation::Limit));
    Ok(out)
}

struct Worker<'a> {
    matcher: &'a LineMatcher,
    searcher: Searcher,
    buffer: Vec<u8>,
    control: &'a Control,
}

impl Worker<'_> {
    fn below(&mut self, base: &Base, relative: &str, path: impl Fn() -> VPath, found: &mut GrepOutcome) {
        match base.open(relative, OFlags::RDONLY) {
            // Deleted, or replaced by a link: treat it as never listed.
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => {}
            opened => self.lines(opened, &path, found),
        }
    }

    fn lines(&mut self, opened: Result<OwnedFd, Errno>, path: &dyn Fn() -> VPath, found: &mut GrepOutcome) {
        let result = opened.and_then(|fd| Ok((fstat(&fd)?, fd)));
        let (host, fd) = match result {
            Ok(opened) => opened,
            Err(errno) => return found.errors.push(failed(&path(), errno)),
        };
        if FileType::from_raw_mode(host.st_mode) != FileType::RegularFile {
            return;
        }
        let size = usize::try_from(host.st_size).unwrap_or(usize::MAX);
        let mut file = File::from(fd);
        let filled = self.fill(&mut file, size);
        if let Some(text) = matches!(filled, Ok(true)).then(|| classify::utf16_text(&self.buffer)).flatten() {
            self.buffer = text.into_bytes();
        }
        let lines = match filled {
            Err(error) => Err(error),
            Ok(false) if let Some(unit) = classify::utf16_beginning(&self.buffer) => {
                let head = self.buffer.get(classify::UTF16_BOM_BYTES..).unwrap_or_default();
                let text = Utf16Reader::new(head.chain(file), unit);
                self.matcher.stream(&mut self.searcher, &[], text, self.control)
            }
            Ok(_) if classify::is_binary(&self.buffer) => {
                found.binary += 1;
                return;
            }
            Ok(true) => self.matcher.slice(&mut self.searcher, &self.buffer, self.control),
            Ok(false) => self.matcher.stream(&mut self.searcher, &self.buffer, file, self.control),
        };
        match lines {
            Ok(lines) if lines.lines.is_empty() && !lines.cut => {}
            Ok(lines) => found.push(path(), lines),
            Err(error) => found.errors.push(FsError::from_io(&path(), &error)),
        }
    }

    /// Reads the start of a file. Returns `true` if that is the whole file.
    fn fill(&mut self, file: &mut File, size: usize) -> std::io::Result<bool> {
        let whole = size < STREAMED_BYTES;
        let mut length = 0;
        // One extra byte reveals that the file has grown.
        self.buffer.resize(if whole { size + 1 } else { classify::SNIFFED }, 0);
        loop {
            match file.read(self.buffer.get_mut(length..).unwrap_or_default()) {
                Ok(0) => break,
                Ok(n) => length += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if whole && length == size && size > 0 {
                break;
            }
            if length == self.buffer.len() {
                return Ok(false);
            }
        }
        self.buffer.truncate(length);
        Ok(true)
    }
}
