//! Shared by both search implementations: cancellation, and ordering of results under a limit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Found, GrepFile, GrepLine, GrepOutcome, Truncation};
use crate::VPath;

/// Tells a search when to stop: at the deadline, when enough was found, or when nobody waits for it any more.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    stop: Arc<AtomicBool>,
    late: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

/// Stops a search on drop.
#[derive(Debug)]
pub(crate) struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Control {
    pub(crate) fn new(deadline: Option<Duration>) -> Self {
        let deadline = deadline.and_then(|time| Instant::now().checked_add(time));
        Self { stop: Arc::default(), late: Arc::default(), deadline }
    }

    /// Returns a control of a part of the search, with the same deadline, but no earlier than `grace` from now. If it
    /// stops at its deadline, the whole search is late.
    pub(crate) fn with_grace(&self, grace: Duration) -> Self {
        let least = Instant::now().checked_add(grace);
        Self {
            stop: Arc::default(),
            late: self.late.clone(),
            deadline: self.deadline.and_then(|at| Some(at).max(least)),
        }
    }

    pub(crate) fn stop_on_drop(&self) -> StopOnDrop {
        StopOnDrop(self.stop.clone())
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn stopped(&self) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            return true;
        }
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if late {
            self.late.store(true, Ordering::Relaxed);
            self.stop();
        }
        late
    }

    /// Returns whether the deadline stopped the search.
    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }
}

/// Maximum number of files that a walk finds, and of entries in a listing.
pub(crate) const MAX_FILES: usize = 200_000;
/// Maximum total bytes of paths that a walk holds, of files found and of directories still to visit.
#[cfg(unix)]
pub(crate) const MAX_PATHS_BYTES: usize = 32 << 20;
/// Maximum length in bytes of a path relative to the start of a walk; deeper directories are not visited.
#[cfg(unix)]
pub(crate) const MAX_PATH_BYTES: usize = 16 << 10;
/// Maximum total bytes of lines held, in results and in batches that wait for earlier ones.
const MAX_HELD_BYTES: usize = 16 << 20;

/// Takes batches as they finish and puts their results in order. Reports when the results from the start suffice.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    max: usize,
    waiting: BTreeMap<usize, GrepOutcome>,
    waiting_bytes: usize,
    next: usize,
    out: GrepOutcome,
    bytes: usize,
}

impl Collector {
    pub(crate) fn new(max: Option<usize>) -> Self {
        Self { max: max.unwrap_or(usize::MAX), ..Self::default() }
    }

    /// Adds a batch. Returns `true` if no later batch can change the outcome.
    pub(crate) fn add(&mut self, batch: usize, found: GrepOutcome) -> bool {
        self.waiting_bytes += found.weight();
        self.waiting.insert(batch, found);
        while let Some(found) = self.waiting.remove(&self.next) {
            self.next += 1;
            self.waiting_bytes = self.waiting_bytes.saturating_sub(found.weight());
            self.take(found);
        }
        self.is_full()
    }

    /// Returns whether a batch should wait, because too many results already wait for an earlier batch.
    #[cfg(unix)]
    pub(crate) fn is_crowded(&self, batch: usize) -> bool {
        batch != self.next && self.waiting_bytes > MAX_HELD_BYTES
    }

    fn is_full(&self) -> bool {
        self.out.matches > self.max || self.bytes > MAX_HELD_BYTES
    }

    fn take(&mut self, found: GrepOutcome) {
        if self.is_full() {
            return;
        }
        self.bytes += found.weight();
        self.out.truncation = self.out.truncation.or(found.truncation);
        self.out.matches += found.files.iter().map(count).sum::<usize>();
        self.out.files.extend(found.files);
        self.out.errors.extend(found.errors);
        self.out.binary += found.binary;
    }

    pub(crate) fn finish(mut self, late: bool) -> GrepOutcome {
        // Results of batches after one that did not finish still count.
        for found in std::mem::take(&mut self.waiting).into_values() {
            self.take(found);
        }
        let mut out = self.out;
        if out.matches > self.max {
            trim(&mut out, self.max);
            out.truncation = Some(Truncation::Limit);
        } else if self.bytes > MAX_HELD_BYTES {
            out.truncation = Some(Truncation::Limit);
        } else if late {
            out.truncation = Some(Truncation::Deadline);
        }
        out
    }
}

impl GrepOutcome {
    /// Returns the approximate memory use of the lines in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.files.iter().flat_map(|file| &file.lines).map(GrepLine::weight).sum()
    }

    /// Adds the lines found in a file, if any.
    pub(crate) fn push(&mut self, path: VPath, found: Found) {
        if found.cut {
            self.truncation = Some(Truncation::Limit);
        }
        if !found.lines.is_empty() {
            self.files.push(GrepFile { path, lines: found.lines, truncated: found.truncated });
        }
    }
}

fn count(file: &GrepFile) -> usize {
    file.lines.iter().filter(|line| line.matched).count()
}

/// Truncates the results to the first `max` matching lines.
fn trim(out: &mut GrepOutcome, max: usize) {
    let mut left = max;
    for file in &mut out.files {
        let matches = count(file);
        if matches > left {
            let kept = file.lines.iter().scan(0, |seen, line| {
                *seen += usize::from(line.matched);
                Some(*seen)
            });
            let keep = kept.take_while(|seen| *seen <= left).count();
            file.lines.truncate(keep);
            file.truncated = true;
            // Drop leading context of a match that is not shown.
            while left == 0 && file.lines.last().is_some_and(|line| !line.matched) {
                file.lines.pop();
            }
        }
        left = left.saturating_sub(matches);
    }
    out.files.retain(|file| file.lines.iter().any(|line| line.matched));
    out.matches = max;
}

/// Orders siblings so that complete paths are sorted: a directory's name counts as ending with a slash.
pub(crate) fn sibling_order(a: (&str, bool), b: (&str, bool)) -> std::cmp::Ordering {
    let slash = |directory: bool| directory.then_some(b'/');
    a.0.bytes().chain(slash(a.1)).cmp(b.0.bytes().chain(slash(b.1)))
}
