//! Which runs wait and which are under way.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::create::Strategy;
use super::execute::{end_unbegun, execute, stopped, until_due};
use super::live::{CancelAction, LiveRun};
use super::record::{RunRecord, of_thread};
use super::{open, others};
use crate::app::App;
use crate::auth::caller;
use crate::error::{ApiError, Result};

/// Finished runs whose streams can still be read again.
const REMEMBERED: usize = 256;

/// The runs of this process.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    threads: HashMap<String, Queue>,
    live: HashMap<String, Arc<LiveRun>>,
    /// Those that have ended, oldest first.
    ended: VecDeque<String>,
    /// Who waits for runs of a thread to begin.
    followers: HashMap<String, Vec<UnboundedSender<Arc<LiveRun>>>>,
    /// How many runs have begun.
    begun: u64,
    /// When other processes were told last that threads are followed here.
    told: Option<Instant>,
}

#[derive(Debug, Default)]
struct Queue {
    current: Option<Arc<LiveRun>>,
    pending: VecDeque<Arc<LiveRun>>,
    /// Those whose time has not come.
    later: Vec<Arc<LiveRun>>,
    /// Whether somebody works on the pending ones.
    is_worked_on: bool,
}

impl Queue {
    fn all(&self) -> impl Iterator<Item = &Arc<LiveRun>> {
        self.current.iter().chain(&self.pending).chain(&self.later)
    }
}

impl Inner {
    /// Shows a run to those who follow its thread.
    fn begin(&mut self, run: &Arc<LiveRun>) {
        self.begun += 1;
        // It begins once.
        let _ = run.order.set(self.begun);
        for follower in self.followers.get(&run.thread).into_iter().flatten() {
            // One that has left is forgotten by and by.
            let _ = follower.send(run.clone());
        }
    }
}

impl Runs {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread has a run that waits or is under way.
    pub(crate) fn is_busy(&self, thread: &str) -> bool {
        self.lock().threads.contains_key(thread)
    }

    /// A run of this process.
    pub(crate) fn get(&self, run: &str) -> Option<Arc<LiveRun>> {
        self.lock().live.get(run).cloned()
    }

    /// The runs of a thread that wait or are under way.
    pub(crate) fn open(&self, thread: &str) -> Vec<Arc<LiveRun>> {
        let inner = self.lock();
        let queue = inner.threads.get(thread);
        queue.map(|queue| queue.all().cloned().collect()).unwrap_or_default()
    }

    /// The runs of a thread that have begun and are remembered, in their order, and those that will begin.
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

    /// Forgets those who have left.
    pub(crate) fn unfollow(&self, thread: &str) {
        let mut inner = self.lock();
        if let Some(followers) = inner.followers.get_mut(thread) {
            followers.retain(|other| !other.is_closed());
            if followers.is_empty() {
                inner.followers.remove(thread);
            }
        }
    }

    fn next(&self, thread: &str) -> Option<Arc<LiveRun>> {
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

    /// Takes a run out of those whose time has not come, and puts it behind the pending ones where it is to be worked on.
    /// Says whether somebody has to begin to work on them.
    fn come(&self, run: &Arc<LiveRun>, is_due: bool) -> bool {
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

    /// Shows a run that has ended in another process.
    pub(super) fn show(&self, run: &Arc<LiveRun>) {
        let mut inner = self.lock();
        if inner.live.insert(run.id.clone(), run.clone()).is_none() {
            inner.begin(run);
        }
        drop(inner);
        self.remember(run);
    }

    /// Whether somebody follows a thread.
    pub(super) fn has_followers(&self) -> bool {
        !self.lock().followers.is_empty()
    }

    /// Whether it is this long ago that other processes were told of followers here; from now on it is not.
    pub(super) fn is_following_due(&self, pause: Duration) -> bool {
        let mut inner = self.lock();
        let is_due = inner.told.is_none_or(|told| told.elapsed() >= pause);
        if is_due {
            inner.told = Some(Instant::now());
        }
        is_due
    }

    /// Whether somebody reads the runs of a thread as they begin.
    pub(super) fn is_followed(&self, thread: &str) -> bool {
        self.lock().followers.contains_key(thread)
    }

    /// Whether there is a run here, or somebody who waits for one.
    pub(super) fn concerns_somebody(&self) -> bool {
        let inner = self.lock();
        !inner.threads.is_empty() || !inner.followers.is_empty()
    }

    /// How many runs wait or are under way.
    pub(crate) fn count_open(&self) -> usize {
        self.lock().threads.values().map(|queue| queue.all().count()).sum()
    }

    /// All runs that wait or are under way.
    pub(crate) fn all_open(&self) -> Vec<Arc<LiveRun>> {
        let inner = self.lock();
        inner.threads.values().flat_map(Queue::all).cloned().collect()
    }

    fn remember(&self, run: &LiveRun) {
        let mut inner = self.lock();
        inner.ended.push_back(run.id.clone());
        if inner.ended.len() > REMEMBERED
            && let Some(oldest) = inner.ended.pop_front()
        {
            inner.live.remove(&oldest);
        }
    }

    pub(super) fn forget(&self, run: &str) {
        self.lock().live.remove(run);
    }
}

/// Refuses a run that cannot be accepted now, before anything of it is stored. Where its thread is there already, what other
/// processes have accepted for it comes first.
pub(super) async fn admit(app: &Arc<App>, thread: &str, exists: bool, strategy: Strategy) -> Result<()> {
    if *app.closing.borrow() {
        return Err(ApiError::unavailable("the server is about to end; ask the next one"));
    }
    if exists {
        others::take_up(app, thread).await?;
    }
    if strategy == Strategy::Reject && app.runs.is_busy(thread) {
        return Err(busy());
    }
    let Some(caller) = caller() else { return Ok(()) };
    let limits = caller.own_limits();
    if let Some(most) = limits.runs_at_once
        && open::count_of(app, caller.id()).await? >= most
    {
        let detail = format!("{most} runs are under way, which is as many as you may have; wait for one to end");
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, detail));
    }
    app.spending.admit(app, caller.id(), limits).await
}

fn busy() -> ApiError {
    ApiError::conflict(
        "Thread is already running a task. Wait for it to finish or choose a different multitask strategy.",
    )
}

/// Accepts a run: it is kept, and its turn comes when those before it have ended. Those are ended, where it is to take their
/// place, once it is kept.
pub(crate) async fn accept(app: &Arc<App>, record: RunRecord) -> Result<Arc<LiveRun>> {
    open::add(app, &record).await?;
    if let Err(error) = record.save(app).await {
        open::remove(app, &record.thread_id, &record.run_id).await;
        return Err(error);
    }
    let (stored, strategy) = (record.clone(), record.multitask_strategy);
    if strategy == Strategy::Reject && is_taken(app, &stored).await? {
        stored.delete(app).await?;
        return Err(busy());
    }
    let before = app.runs.open(&stored.thread_id);
    match enqueue(app, record, false, strategy) {
        Some(run) => {
            if let Some(how) = strategy.ends_earlier() {
                for earlier in before {
                    // Where that cannot be noted now, it is once its turn has come.
                    let _ = others::end(app, &earlier, how).await;
                }
            }
            Ok(run)
        }
        None => {
            // Another one was accepted meanwhile.
            stored.delete(app).await?;
            Err(busy())
        }
    }
}

/// Whether another process has accepted a run for the thread of one at the same moment. Both are refused then.
async fn is_taken(app: &App, record: &RunRecord) -> Result<bool> {
    let open = open::of_thread(app, &record.thread_id).await?;
    Ok(open.iter().any(|open| open.run != record.run_id && app.runs.get(&open.run).is_none()))
}

/// Puts a run behind those of its thread, or in their place; none where there may be none. One that is to begin later keeps
/// nobody waiting.
pub(super) fn enqueue(app: &Arc<App>, record: RunRecord, recovered: bool, strategy: Strategy) -> Option<Arc<LiveRun>> {
    let thread = record.thread_id.clone();
    let run = Arc::new(LiveRun::new(record, recovered));
    let waits = !until_due(&run.record()).is_zero();
    let begins = {
        let mut inner = app.runs.lock();
        if let Some(known) = inner.live.get(&run.id) {
            return Some(known.clone());
        }
        let queue = inner.threads.entry(thread.clone());
        if matches!(queue, Entry::Occupied(_)) && strategy == Strategy::Reject {
            return None;
        }
        let queue = queue.or_default();
        if let Some(how) = strategy.ends_earlier() {
            queue.all().for_each(|earlier| earlier.end(how));
        }
        let begins = if waits {
            queue.later.push(run.clone());
            false
        } else {
            queue.pending.push_back(run.clone());
            !std::mem::replace(&mut queue.is_worked_on, true)
        };
        inner.live.insert(run.id.clone(), run.clone());
        begins
    };
    if waits {
        tokio::spawn(come(app.clone(), run.clone()));
    }
    if begins {
        tokio::spawn(work(app.clone(), thread));
    }
    Some(run)
}

/// Waits for the time of a run to come, or for its end.
async fn come(app: Arc<App>, run: Arc<LiveRun>) {
    let mut stop = run.stop.subscribe();
    let is_due = tokio::select! {
        () = tokio::time::sleep(until_due(&run.record())) => true,
        () = stopped(&mut stop) => run.recovered,
        // The next server waits on.
        () = app.closed() => return run.finish(),
    };
    if !is_due {
        // It has nothing of the thread, so nobody has to be waited for.
        end_unbegun(&app, &run).await;
        app.runs.remember(&run);
    }
    if app.runs.come(&run, is_due) {
        tokio::spawn(work(app.clone(), run.thread.clone()));
    }
    if !is_due {
        run.finish();
    }
}

/// Waits until nothing is worked on, while the server ends.
pub(crate) async fn settled(app: &App) {
    for run in app.runs.all_open() {
        if run.handle().is_some() {
            run.ended().await;
        }
    }
}

/// Works on the runs of a thread until none is left.
async fn work(app: Arc<App>, thread: String) {
    while let Some(run) = app.runs.next(&thread) {
        if *app.closing.borrow() {
            // The next server begins with it.
            run.finish();
            return;
        }
        execute(&app, &run).await;
        app.runs.remember(&run);
        run.finish();
    }
}

/// Ends and forgets the runs of a thread that is about to go.
pub(crate) async fn forget_thread(app: &Arc<App>, thread: &str) -> Result<()> {
    others::take_up(app, thread).await?;
    for run in app.runs.open(thread) {
        others::end(app, &run, CancelAction::Interrupt).await?;
        run.ended().await;
    }
    app.checkpoints.forget(thread);
    for record in of_thread(app, thread).await? {
        record.delete(app).await?;
        app.runs.forget(&record.run_id);
    }
    Ok(())
}
