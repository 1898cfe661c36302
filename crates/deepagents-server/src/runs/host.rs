//! Accepting runs and executing them in order.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use axum::http::StatusCode;

use super::execute::{RETRY_INTERVAL, execute, remaining_delay};
use super::live::{CancelAction, LiveRun};
use super::record::{RunRecord, find, of_thread};
use super::run_options::Strategy;
use super::waiting::ended;
use super::work::stopped;
use super::{open, others};
use crate::app::App;
use crate::auth::caller;
use crate::error::{ApiError, Result};

/// Rejects a run that cannot be accepted now, before any of it is stored. If the thread exists, runs that other
/// processes accepted for it are picked up first.
pub(super) async fn admit(app: &Arc<App>, thread: &str, exists: bool, strategy: Strategy) -> Result<()> {
    if *app.closing.borrow() {
        return Err(ApiError::unavailable("the server is shutting down; ask the next one"));
    }
    if exists {
        others::adopt_thread(app, thread).await?;
    }
    if strategy == Strategy::Reject && (app.runs.is_busy(thread) || (exists && is_taken(app, thread).await?)) {
        return Err(busy());
    }
    let Some(caller) = caller() else { return Ok(()) };
    let limits = caller.own_limits();
    if let Some(most) = limits.runs_at_once
        && open::count_of(app, caller.id()).await? >= most
    {
        let detail = format!("{most} runs are in progress, the most you may have; wait for one to end");
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, detail));
    }
    app.spending.admit(app, caller.id(), limits).await
}

fn busy() -> ApiError {
    ApiError::conflict(
        "Thread is already running a task. Wait for it to finish or choose a different multitask strategy.",
    )
}

/// Accepts a run: stores it and queues it behind the thread's earlier runs. If its strategy ends those, they are ended
/// after it is stored.
pub(crate) async fn accept(app: &Arc<App>, record: RunRecord) -> Result<Arc<LiveRun>> {
    open::add(app, &record).await?;
    match record.save_over(app, None).await {
        Ok(true) => {}
        // The entry belongs to the process that created the run.
        Ok(false) => return Err(ApiError::conflict(format!("Run {} already exists", record.run_id))),
        Err(error) => {
            open::remove(app, &record.thread_id, &record.run_id).await;
            return Err(error.into());
        }
    }
    let (stored, strategy) = (record.clone(), record.multitask_strategy);
    let run = Arc::new(LiveRun::new(record, false));
    let (before, later) = match strategy.earlier_runs_action() {
        Some(_) => others_at_once(app, &run).await,
        None => (Vec::new(), Vec::new()),
    };
    match enqueue(app, run, strategy, &later) {
        Some(run) => {
            if let Some(how) = strategy.earlier_runs_action() {
                for earlier in before {
                    // If the request cannot be stored now, it is stored when the earlier run's turn comes.
                    let _ = others::end(app, &earlier, how).await;
                }
            }
            Ok(run)
        }
        None => {
            // Another run was accepted meanwhile.
            stored.delete(app).await?;
            Err(busy())
        }
    }
}

type Runs = Vec<Arc<LiveRun>>;

/// Returns the open runs of a thread that a new run, which is stored already, ends, and those that end the new run:
/// another process may have accepted a run at the same time. Of two such runs, each process finds the one that was
/// stored before its own.
async fn others_at_once(app: &Arc<App>, run: &Arc<LiveRun>) -> (Runs, Runs) {
    let (mut before, mut later): (Runs, Runs) = {
        // No other request picks it up before it is queued.
        let mut inner = app.runs.lock();
        inner.live.insert(run.id.clone(), run.clone());
        let queue = inner.threads.get(&run.thread);
        (queue.map(|queue| queue.all().cloned().collect()).unwrap_or_default(), Vec::new())
    };
    // If the storage is unavailable, the runs that are known here are ended.
    let _ = others::adopt_thread(app, &run.thread).await;
    for found in app.runs.open(&run.thread) {
        if before.iter().any(|known| known.id == found.id) {
            continue;
        }
        // Both processes may find each other's run. Then the later one ends the earlier one.
        match found.record().multitask_strategy.earlier_runs_action().filter(|_| found.id > run.id) {
            Some(how) => {
                run.end(how);
                later.push(found);
            }
            None => before.push(found),
        }
    }
    (before, later)
}

/// Whether the thread has an open run that this process does not have: one of an agent that is not served here, or one
/// that is just being accepted.
async fn is_taken(app: &App, thread: &str) -> Result<bool> {
    let open = open::of_thread(app, thread).await?;
    Ok(open.iter().any(|open| app.runs.get(&open.run).is_none()))
}

/// Queues a run behind those of its thread. If the strategy says so, it ends those except the `later` ones. Returns the
/// run that is queued, which may be a known one, or `None` if the strategy rejects it. A run with a delayed start does
/// not hold up others.
pub(super) fn enqueue(
    app: &Arc<App>,
    run: Arc<LiveRun>,
    strategy: Strategy,
    later: &[Arc<LiveRun>],
) -> Option<Arc<LiveRun>> {
    let thread = run.thread.clone();
    let waits = !remaining_delay(&run.record()).is_zero();
    let begins = {
        let mut inner = app.runs.lock();
        if let Some(known) = inner.live.get(&run.id).filter(|known| !Arc::ptr_eq(known, &run)) {
            return Some(known.clone());
        }
        let queue = inner.threads.entry(thread.clone());
        if matches!(queue, Entry::Occupied(_)) && strategy == Strategy::Reject {
            return None;
        }
        let queue = queue.or_default();
        if let Some(how) = strategy.earlier_runs_action() {
            let is_earlier = |other: &&Arc<LiveRun>| later.iter().all(|known| known.id != other.id);
            queue.all().filter(is_earlier).for_each(|earlier| earlier.end(how));
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
        tokio::spawn(wait_until_due(app.clone(), run.clone()));
    } else if begins {
        tokio::spawn(work(app.clone(), thread));
    } else {
        tokio::spawn(end_while_pending(app.clone(), run.clone()));
    }
    Some(run)
}

/// Ends a run that is cancelled before its turn, without waiting for the runs before it.
async fn end_while_pending(app: Arc<App>, run: Arc<LiveRun>) {
    let is_cancelled = tokio::select! {
        () = cancelled_unbegun(&app, &run) => true,
        () = run.ended() => return,
        () = app.closed() => false,
    };
    if !app.runs.withdraw(&run) {
        return;
    }
    if is_cancelled {
        end_unbegun(&app, &run).await;
    } else {
        // The next server starts this run.
        run.finish();
    }
}

/// Waits until a run is cancelled that no process has begun. One that another process has begun ends in its turn,
/// because undoing it must not meet the runs behind it.
async fn cancelled_unbegun(app: &App, run: &LiveRun) {
    stopped(&mut run.stop.subscribe()).await;
    if !run.recovered {
        return;
    }
    loop {
        match find(app, &run.thread, &run.id).await {
            Ok(record) if record.status.is_open() && record.from.is_some() => std::future::pending().await,
            Err(error) if error.is_temporary() => tokio::time::sleep(RETRY_INTERVAL).await,
            _ => return,
        }
    }
}

/// Ends a run that holds up no other one. It has not touched its thread here, so it need not wait for its turn. If
/// another process has begun it, it ends there.
async fn end_unbegun(app: &Arc<App>, run: &Arc<LiveRun>) {
    execute(app, run).await;
    app.runs.remember(run);
    app.runs.end_delay(run, false);
    run.finish();
}

/// Waits until a delayed run is due or is ended.
async fn wait_until_due(app: Arc<App>, run: Arc<LiveRun>) {
    let is_due = tokio::select! {
        () = tokio::time::sleep(remaining_delay(&run.record())) => true,
        () = cancelled_unbegun(&app, &run) => false,
        // The next server continues to wait.
        () = app.closed() => return run.finish(),
    };
    if !is_due {
        return end_unbegun(&app, &run).await;
    }
    if app.runs.end_delay(&run, true) {
        tokio::spawn(work(app.clone(), run.thread.clone()));
    }
    end_while_pending(app, run).await;
}

/// Waits during shutdown until no run is executing.
pub(crate) async fn wait_until_idle(app: &App) {
    for run in app.runs.all_open() {
        if run.handle().is_some() {
            run.ended().await;
        }
    }
}

/// Executes the queued runs of a thread.
async fn work(app: Arc<App>, thread: String) {
    others::show_ended(&app, &thread).await;
    let mut next = app.runs.next(&thread);
    while let Some(run) = next {
        if *app.closing.borrow() {
            // The next server starts this run.
            run.finish();
            return;
        }
        execute(&app, &run).await;
        app.runs.remember(&run);
        others::show_ended(&app, &thread).await;
        // A client that is told of the end finds the thread idle.
        next = app.runs.next(&thread);
        run.finish();
    }
}

/// Ends and deletes the runs of a thread that is about to be deleted, except those that are accepted meanwhile.
pub(crate) async fn forget_thread(app: &Arc<App>, thread: &str) -> Result<()> {
    others::adopt_to_end(app, thread).await?;
    for run in app.runs.open(thread) {
        others::end(app, &run, CancelAction::Interrupt).await?;
        ended(app, &run).await?;
    }
    app.checkpoints.forget(thread);
    let records = of_thread(app, thread).await?;
    // Read after the records: a run is indexed before it is stored.
    let indexed = open::of_thread(app, thread).await?;
    for record in records {
        // A run accepted meanwhile may have started: it is ended before it is deleted. A run that is over here and whose
        // result could not be stored is deleted as it is.
        let can_end = match app.runs.get(&record.run_id) {
            Some(_) => app.runs.open(thread).iter().any(|run| run.id == record.run_id),
            None => indexed.iter().any(|open| open.run == record.run_id),
        };
        if can_end && record.status.is_open() {
            continue;
        }
        record.delete(app).await?;
        app.runs.forget(&record.run_id);
    }
    Ok(())
}
