//! The runs of this process: pending, running and ended ones, and the subscribers to their threads.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::live::LiveRun;

/// Number of finished runs whose streams can still be read.
const MAX_FINISHED_RUNS: usize = 256;

/// The runs of this process.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    pub(super) inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) threads: HashMap<String, Queue>,
    pub(super) live: HashMap<String, Arc<LiveRun>>,
    /// Ended runs, oldest first.
    pub(super) ended: VecDeque<String>,
    /// The subscribers to each thread, which receive its runs as they begin.
    pub(super) followers: HashMap<String, Vec<UnboundedSender<Arc<LiveRun>>>>,
    /// Number of runs that have begun.
    pub(super) begun: u64,
    /// When this process last announced that it has subscribers.
    pub(super) announced_at: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) current: Option<Arc<LiveRun>>,
    pub(super) pending: VecDeque<Arc<LiveRun>>,
    /// Runs that are not due yet, or that end before their turn.
    pub(super) later: Vec<Arc<LiveRun>>,
    /// Whether a task executes the pending runs.
    pub(super) is_worked_on: bool,
}

impl Queue {
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<LiveRun>> {
        self.current.iter().chain(&self.pending).chain(&self.later)
    }
}

impl Inner {
    /// Sends a run to the subscribers of its thread.
    fn begin(&mut self, run: &Arc<LiveRun>) {
        self.begun += 1;
        // A run begins only once.
        let _ = run.order.set(self.begun);
        for follower in self.followers.get(&run.thread).into_iter().flatten() {
            // Dropped subscribers are removed later.
            let _ = follower.send(run.clone());
        }
    }
}

impl Runs {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread has a pending or running run.
    pub(crate) fn is_busy(&self, thread: &str) -> bool {
        self.lock().threads.contains_key(thread)
    }

    /// Returns a run of this process.
    pub(crate) fn get(&self, run: &str) -> Option<Arc<LiveRun>> {
        self.lock().live.get(run).cloned()
    }

    /// Returns the pending and running runs of a thread.
    pub(crate) fn open(&self, thread: &str) -> Vec<Arc<LiveRun>> {
        let inner = self.lock();
        let queue = inner.threads.get(thread);
        queue.map(|queue| queue.all().cloned().collect()).unwrap_or_default()
    }

    /// Subscribes to a thread. Returns its cached runs that have begun, in order, and a receiver of later ones.
    pub(crate) fn follow(&self, thread: &str) -> (Vec<Arc<LiveRun>>, UnboundedReceiver<Arc<LiveRun>>) {
        let (sender, coming) = mpsc::unbounded_channel();
        let mut inner = self.lock();
        let followers = inner.followers.entry(thread.to_owned()).or_default();
        followers.retain(|other| !other.is_closed());
        followers.push(sender);
        let mut known: Vec<Arc<LiveRun>> =
            inner.live.values().filter(|run| run.thread == thread && run.order.get().is_some()).cloned().collect();
        known.sort_by_key(|run| run.order.get().copied());
        (known, coming)
    }

    /// Removes dropped subscribers.
    pub(crate) fn unfollow(&self, thread: &str) {
        let mut inner = self.lock();
        if let Some(followers) = inner.followers.get_mut(thread) {
            followers.retain(|other| !other.is_closed());
            if followers.is_empty() {
                inner.followers.remove(thread);
            }
        }
    }

    pub(super) fn next(&self, thread: &str) -> Option<Arc<LiveRun>> {
        let mut inner = self.lock();
        let queue = inner.threads.get_mut(thread)?;
        queue.current = queue.pending.pop_front();
        let Some(next) = queue.current.clone() else {
            queue.is_worked_on = false;
            if queue.later.is_empty() {
                inner.threads.remove(thread);
            }
            return None;
        };
        inner.begin(&next);
        Some(next)
    }

    /// Removes a run from those that hold up no other one and, if it is due, queues it. Returns whether the caller must
    /// start a task to execute the queue.
    pub(super) fn end_delay(&self, run: &Arc<LiveRun>, is_due: bool) -> bool {
        let mut inner = self.lock();
        let Some(queue) = inner.threads.get_mut(&run.thread) else { return false };
        queue.later.retain(|other| other.id != run.id);
        if is_due {
            queue.pending.push_back(run.clone());
            return !std::mem::replace(&mut queue.is_worked_on, true);
        }
        if queue.later.is_empty() && !queue.is_worked_on {
            inner.threads.remove(&run.thread);
        }
        false
    }

    /// Moves a run from those that wait for their turn to those that hold up no other one. Returns whether it waited.
    pub(super) fn withdraw(&self, run: &LiveRun) -> bool {
        let mut inner = self.lock();
        let Some(queue) = inner.threads.get_mut(&run.thread) else { return false };
        let Some(at) = queue.pending.iter().position(|other| other.id == run.id) else { return false };
        queue.later.extend(queue.pending.remove(at));
        true
    }

    /// Adds a run that has ended in another process, for the subscribers here.
    pub(super) fn show(&self, run: &Arc<LiveRun>) {
        let mut inner = self.lock();
        if inner.live.insert(run.id.clone(), run.clone()).is_none() {
            inner.begin(run);
        }
        drop(inner);
        self.remember(run);
    }

    /// Whether any thread has subscribers.
    pub(super) fn has_followers(&self) -> bool {
        !self.lock().followers.is_empty()
    }

    /// Whether the last announcement of subscribers is this long ago. If so, counts this moment as the new one.
    pub(super) fn is_following_due(&self, pause: Duration) -> bool {
        let mut inner = self.lock();
        let is_due = inner.announced_at.is_none_or(|told| told.elapsed() >= pause);
        if is_due {
            inner.announced_at = Some(Instant::now());
        }
        is_due
    }

    /// Whether a thread has subscribers.
    pub(super) fn is_followed(&self, thread: &str) -> bool {
        self.lock().followers.contains_key(thread)
    }

    /// Whether this process has an open run or a subscriber.
    pub(super) fn has_runs_or_subscribers(&self) -> bool {
        let inner = self.lock();
        !inner.threads.is_empty() || !inner.followers.is_empty()
    }

    /// Returns the number of pending and running runs.
    pub(crate) fn count_open(&self) -> usize {
        self.lock().threads.values().map(|queue| queue.all().count()).sum()
    }

    /// Returns all pending and running runs.
    pub(crate) fn all_open(&self) -> Vec<Arc<LiveRun>> {
        let inner = self.lock();
        inner.threads.values().flat_map(Queue::all).cloned().collect()
    }

    /// Returns all runs that wait for their turn, are not due yet, or end before their turn.
    pub(super) fn all_waiting(&self) -> Vec<Arc<LiveRun>> {
        let inner = self.lock();
        inner.threads.values().flat_map(|queue| queue.pending.iter().chain(&queue.later)).cloned().collect()
    }

    pub(super) fn remember(&self, run: &LiveRun) {
        let mut inner = self.lock();
        inner.ended.push_back(run.id.clone());
        if inner.ended.len() > MAX_FINISHED_RUNS
            && let Some(oldest) = inner.ended.pop_front()
        {
            inner.live.remove(&oldest);
        }
    }

    pub(super) fn forget(&self, run: &str) {
        self.lock().live.remove(run);
    }
}
