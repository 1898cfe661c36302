//! Runs are accepted, and worked on when their turn comes.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use axum::http::StatusCode;

use super::create::Strategy;
use super::execute::{end_unbegun, execute, stopped, until_due};
use super::live::{CancelAction, LiveRun};
use super::record::{RunRecord, of_thread};
use super::waiting::ended;
use super::{open, others};
use crate::app::App;
use crate::auth::caller;
use crate::error::{ApiError, Result};

/// Refuses a run that cannot be accepted now, before anything of it is stored. Where its thread is there already, what other
/// processes have accepted for it comes first.
pub(super) async fn admit(app: &Arc<App>, thread: &str, exists: bool, strategy: Strategy) -> Result<()> {
    if *app.closing.borrow() {
        return Err(ApiError::unavailable("the server is about to end; ask the next one"));
    }
    if exists {
        others::take_up(app, thread).await?;
    }
    if strategy == Strategy::Reject && (app.runs.is_busy(thread) || (exists && is_taken(app, thread).await?)) {
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
    if let Err(error) = record.save_new(app).await {
        // Where another process has made it the entry is its.
        if !error.is_conflict() {
            open::remove(app, &record.thread_id, &record.run_id).await;
        }
        return Err(error);
    }
    let (stored, strategy) = (record.clone(), record.multitask_strategy);
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

/// Whether a run of a thread was accepted that is not known here: by another process, whose agent is not served here,
/// or at this moment.
async fn is_taken(app: &App, thread: &str) -> Result<bool> {
    let open = open::of_thread(app, thread).await?;
    Ok(open.iter().any(|open| app.runs.get(&open.run).is_none()))
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
        ended(app, &run).await?;
    }
    app.checkpoints.forget(thread);
    for record in of_thread(app, thread).await? {
        record.delete(app).await?;
        app.runs.forget(&record.run_id);
    }
    Ok(())
}
