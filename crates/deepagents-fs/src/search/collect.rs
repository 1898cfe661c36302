//! What both ways of searching share: stopping, and putting results in order under a limit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Found, GrepFile, GrepLine, GrepOutcome, Truncation};
use crate::VPath;

/// Says when to stop: the time is over, enough was found, or nobody waits any more.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    stop: Arc<AtomicBool>,
    late: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

/// Stops a search when it is dropped.
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

    /// One that stops by itself, no sooner than so much later from now.
    pub(crate) fn with_grace(&self, grace: Duration) -> Self {
        let least = Instant::now().checked_add(grace);
        Self { stop: Arc::default(), late: Arc::default(), deadline: self.deadline.max(least) }
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

    /// Whether the time was over before the search was.
    pub(crate) fn late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }
}

/// Files that a walk finds before it ends, and that a listing has at most.
pub(crate) const MOST_FILES: usize = 200_000;
/// Bytes of paths that a walk holds: of the files that it found, and of the directories that it has still to look into.
#[cfg(unix)]
pub(crate) const MOST_PATH_BYTES: usize = 32 << 20;
/// Bytes of a path, from where a walk begins, below which it does not look.
#[cfg(unix)]
pub(crate) const LONGEST_PATH: usize = 16 << 10;
/// Bytes of lines that are held, of the results so far and of those that wait for earlier ones.
const MOST_BYTES: usize = 16 << 20;

/// Takes batches as they finish and keeps the results in order; says when those from the start are enough.
#[derive(Debug)]
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
        Self {
            max: max.unwrap_or(usize::MAX),
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            next: 0,
            out: GrepOutcome::default(),
            bytes: 0,
        }
    }

    /// Adds a batch; true when no later batch can change the outcome.
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

    /// Whether a batch should not be begun, as too much waits for an earlier one already.
    #[cfg(unix)]
    pub(crate) fn is_crowded(&self, batch: usize) -> bool {
        batch != self.next && self.waiting_bytes > MOST_BYTES
    }

    fn is_full(&self) -> bool {
        self.out.matches > self.max || self.bytes > MOST_BYTES
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
        // Batches behind one that was not finished are still results.
        for found in std::mem::take(&mut self.waiting).into_values() {
            self.take(found);
        }
        let mut out = self.out;
        if out.matches > self.max {
            trim(&mut out, self.max);
            out.truncation = Some(Truncation::Limit);
        } else if self.bytes > MOST_BYTES {
            out.truncation = Some(Truncation::Limit);
        } else if late {
            out.truncation = Some(Truncation::Deadline);
        }
        out
    }
}

impl GrepOutcome {
    /// About how many bytes of memory the lines take.
    pub(crate) fn weight(&self) -> usize {
        self.files.iter().flat_map(|file| &file.lines).map(GrepLine::weight).sum()
    }

    /// Adds what was found in a file, if anything was.
    pub(crate) fn push(&mut self, path: VPath, found: Found) {
        if found.cut {
            self.truncation = Some(Truncation::Limit);
        }
        if !found.lines.is_empty() {
            self.files.push(GrepFile { path, lines: found.lines });
        }
    }
}

fn count(file: &GrepFile) -> usize {
    file.lines.iter().filter(|line| line.matched).count()
}

/// Keeps the first matching lines.
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
            // Lines that led up to a match that is not shown.
            while left == 0 && file.lines.last().is_some_and(|line| !line.matched) {
                file.lines.pop();
            }
        }
        left = left.saturating_sub(matches);
    }
    out.files.retain(|file| file.lines.iter().any(|line| line.matched));
    out.matches = max;
}

/// How siblings are ordered so that whole paths come out sorted: a directory's name counts with a slash at its end.
pub(crate) fn sibling_order(a: (&str, bool), b: (&str, bool)) -> std::cmp::Ordering {
    let slash = |directory: bool| directory.then_some(b'/');
    a.0.bytes().chain(slash(a.1)).cmp(b.0.bytes().chain(slash(b.1)))
}
