//! Runs that other processes on the same storage accepted or execute.
//!
//! A process that is asked for such a run picks it up and queues it like a run of its own. The process with the lease
//! of the thread executes it. This way the run's streams work in every process, later runs of the thread queue behind
//! it, and it is resumed if its process is gone.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use deepagents_core::store::{Query, StoreError};

use super::agents::{announce_again, is_served};
use super::execute::{is_abandoned, remaining_delay};
use super::host::enqueue;
use super::live::{CancelAction, LiveRun};
use super::open::{self, OpenRun};
use super::record::{RunRecord, find};
use super::run_options::Strategy;
use crate::app::App;
use crate::auth::owns;
use crate::error::Result;
use crate::records;
use crate::stream::past;
use crate::webhooks;

/// Interval between checks for requests from other processes, while this process has runs or subscribers.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which this process announces that it has subscribers.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(5);

/// How long the entry of an ended run is kept for other processes.
const ENDED_RUN_TTL: Duration = Duration::from_secs(10);

/// Key that records that all open runs are in the index. Earlier versions had no index.
const INDEXED: &str = "open-runs-indexed";

/// Picks up the runs of a thread that another process has accepted.
pub(crate) async fn adopt_thread(app: &Arc<App>, thread: &str) -> Result<()> {
    for open in open::of_thread(app, thread).await? {
        adopt_run(app, &open).await?;
    }
    Ok(())
}

/// Picks up all runs of a thread, including those of agents that only other processes serve, to end them.
pub(super) async fn adopt_to_end(app: &Arc<App>, thread: &str) -> Result<()> {
    for open in open::of_thread(app, thread).await? {
        adopt_if(app, &open, |_| true).await?;
    }
    Ok(())
}

/// Picks up a run, unless its agent is served by other processes only.
async fn adopt_run(app: &Arc<App>, open: &OpenRun) -> Result<()> {
    let is_meant = |record: &RunRecord| record.status.is_open() || is_abandoned(app, record);
    adopt_if(app, open, |record| is_meant(record) && app.agent(&record.graph_id).is_some()).await
}

async fn adopt_if(app: &Arc<App>, open: &OpenRun, is_meant: impl Fn(&RunRecord) -> bool) -> Result<()> {
    if app.runs.get(&open.run).is_some() {
        return Ok(());
    }
    match find(app, &open.thread, &open.run).await {
        Ok(record) if record.is_unfinished() && is_meant(&record) => {
            enqueue_found(app, open, record);
            Ok(())
        }
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Queues a run of another process. One that was cancelled ends instead of starting.
fn enqueue_found(app: &Arc<App>, open: &OpenRun, record: RunRecord) {
    let how = if record.status.is_open() { open.value.cancel } else { Some(open.value.cancel.unwrap_or_default()) };
    let found = Arc::new(LiveRun::new(record, true));
    if let Some(how) = how {
        // Before it is queued, because it may begin at once.
        found.end(how);
    }
    if let (Some(run), Some(how)) = (enqueue(app, found, Strategy::Enqueue, &[]), how) {
        run.end(how);
    }
}

/// Returns a run that is open in any process or still cached in this one.
pub(crate) async fn live(app: &Arc<App>, record: &RunRecord) -> Result<Option<Arc<LiveRun>>> {
    if app.runs.get(&record.run_id).is_none() {
        if record.status.is_open() {
            adopt_thread(app, &record.thread_id).await?;
        } else if record.is_closed_early() {
            // Its end can be waited for here.
            let open = open::of_thread(app, &record.thread_id).await?;
            if let Some(open) = open.iter().find(|open| open.run == record.run_id) {
                adopt_if(app, open, |_| true).await?;
            }
        }
    }
    Ok(app.runs.get(&record.run_id))
}

/// Ends a run in whichever process executes it. The request is stored, so that a process that resumes the run ends it,
/// too.
pub(crate) async fn end(app: &App, run: &LiveRun, how: CancelAction) -> Result<()> {
    let stored = open::request_cancel(app, &run.thread, &run.id, how).await;
    // A run of this process ends here even if the storage is unavailable.
    if run.recovered {
        stored?;
    }
    run.end(how);
    Ok(())
}

/// Picks up all open runs of the caller. The periodic check covers them from then on.
pub(super) async fn adopt_all(app: &Arc<App>) -> Result<()> {
    let is_meant = |open: &&OpenRun| !open.value.ended && owns(open.value.owner.as_deref());
    for open in open::all(app).await?.iter().filter(is_meant) {
        adopt_run(app, open).await?;
    }
    Ok(())
}

/// Prepares to show the runs of a thread to a subscriber, which is announced to other processes.
pub(crate) async fn follow(app: &Arc<App>, thread: &str) -> Result<()> {
    announce_if_due(app).await?;
    adopt_thread(app, thread).await
}

async fn announce_if_due(app: &App) -> Result<()> {
    if app.runs.is_following_due(ANNOUNCE_INTERVAL) { open::announce_subscribers(app).await } else { Ok(()) }
}

/// Picks up the unfinished runs that an earlier process accepted.
pub(crate) async fn recover(app: &Arc<App>) -> Result<(), StoreError> {
    let own = app.records(&[]);
    if own.item(INDEXED).await?.is_none() {
        index_all(app).await?;
        own.put(INDEXED, &true).await?;
    }
    for open in open::all(app).await? {
        let Some(record) = stored(app, &open).await? else { continue };
        if !record.is_unfinished() {
            open::remove(app, &open.thread, &open.run).await;
        } else if app.agent(&record.graph_id).is_some() && (record.status.is_open() || is_abandoned(app, &record)) {
            enqueue_found(app, &open, record);
        }
    }
    Ok(())
}

async fn stored(app: &App, open: &OpenRun) -> Result<Option<RunRecord>, StoreError> {
    Ok(super::record::records(app, &open.thread).item(&open.run).await?.and_then(records::read))
}

/// Adds the open runs of earlier versions to the index.
async fn index_all(app: &App) -> Result<(), StoreError> {
    for namespace in app.store.namespaces(&records::namespace(&["runs"])).await? {
        let found = app.store.search(&namespace, &Query::default()).await?;
        let records = found.into_iter().filter_map(records::read::<RunRecord>);
        for record in records.filter(|record| record.status.is_open()) {
            open::add(app, &record).await?;
        }
    }
    Ok(())
}

/// Watches for changes and requests by other processes for as long as the server lives.
pub(crate) async fn watch(app: Weak<App>) {
    let (mut seen, mut looked, mut told) = (HashMap::new(), Instant::now(), Instant::now());
    let mut announced = None;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let Some(app) = app.upgrade() else { return };
        if *app.closing.borrow() {
            return;
        }
        announce_again(&app, &mut announced).await;
        if app.runs.has_runs_or_subscribers() || looked.elapsed() >= app.lease {
            looked = Instant::now();
            // If the storage is unavailable, the next round retries.
            let _ = check_runs(&app, &mut seen).await;
        }
        if told.elapsed() >= app.lease {
            told = Instant::now();
            let _ = webhooks::adopt_overdue(&app).await;
        }
    }
}

/// Ends runs as requested, shows runs to the subscribers here, and picks up runs that no process has worked on for the
/// duration of a lease.
async fn check_runs(app: &Arc<App>, seen: &mut HashMap<String, Instant>) -> Result<()> {
    if app.runs.has_followers() {
        announce_if_due(app).await?;
    }
    // Read before the index, because a run is added to the index before it is queued here.
    let waiting = app.runs.all_waiting();
    let open = open::all(app).await?;
    if !waiting.is_empty() {
        let known: HashSet<&str> = open.iter().filter(|open| !open.value.ended).map(|open| &*open.run).collect();
        // Runs that another process has ended or removed end now, not when they are due or their turn comes.
        waiting.iter().filter(|run| !known.contains(&*run.id)).for_each(|run| run.end(CancelAction::Interrupt));
    }
    seen.retain(|run, _| open.iter().any(|open| open.run == *run));
    for open in open {
        let since = *seen.entry(open.run.clone()).or_insert_with(Instant::now);
        if let Some(run) = app.runs.get(&open.run) {
            if open.value.ended && since.elapsed() >= ENDED_RUN_TTL {
                open::remove(app, &open.thread, &open.run).await;
            } else if let Some(how) = open.value.cancel {
                run.end(how);
            }
        } else if app.runs.is_followed(&open.thread) {
            show(app, &open).await?;
        } else if since.elapsed() >= app.lease {
            seen.insert(open.run.clone(), Instant::now());
            check_unknown_run(app, &open).await?;
        }
    }
    Ok(())
}

/// Shows the runs that other processes have ended to the subscribers of their thread, before a run of this process
/// begins: the log has them before it.
pub(super) async fn show_ended(app: &Arc<App>, thread: &str) {
    if !app.runs.is_followed(thread) {
        return;
    }
    // If the storage is unavailable, they are shown later.
    for open in open::ended_of_thread(app, thread).await.unwrap_or_default() {
        if app.runs.get(&open.run).is_none() {
            let _ = show(app, &open).await;
        }
    }
}

/// Shows a run of another process to the subscribers of its thread.
async fn show(app: &Arc<App>, open: &OpenRun) -> Result<()> {
    if !open.value.ended {
        return adopt_run(app, open).await;
    }
    if let Some(record) = stored(app, open).await?
        && let Some(run) = past(app, &record).await?
    {
        app.runs.show(&run);
    }
    Ok(())
}

/// Checks a run that this process does not have and whose process may be gone.
async fn check_unknown_run(app: &Arc<App>, open: &OpenRun) -> Result<()> {
    let is_owned = app.journal.threads().get(&open.thread).await?.is_some_and(|info| app.is_owned(&info));
    match stored(app, open).await? {
        Some(record) if record.is_unfinished() => {
            // A run whose agent is served here is resumed; one whose agent no process serves fails.
            let is_meant = app.agent(&record.graph_id).is_some() || !is_served(app, &record.graph_id).await?;
            let is_due =
                if record.status.is_open() { remaining_delay(&record).is_zero() } else { is_abandoned(app, &record) };
            if !is_owned && is_due && is_meant {
                enqueue_found(app, open, record);
            }
        }
        _ => open::remove(app, &open.thread, &open.run).await,
    }
    Ok(())
}
