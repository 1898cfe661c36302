//! Runs that other processes on the same storage accepted and work on.
//!
//! Whoever is asked for one of them takes it up: it then waits here as one of this process does, and is worked on by
//! whoever has the lease of its thread, so that its streams go on, later runs of the thread come behind it, and it is gone
//! on with where its process is no more.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use deepagents_core::store::{NamespaceQuery, StoreError};
use serde_json::json;

use super::create::Strategy;
use super::execute::until_due;
use super::host::enqueue;
use super::live::{CancelAction, LiveRun};
use super::open::{self, OpenRun};
use super::record::{RunRecord, find};
use crate::app::App;
use crate::error::Result;

/// Between one look at what other processes asked for and the next, while there is somebody here whom it concerns.
const LOOK: Duration = Duration::from_secs(1);

/// Under which key it is noted that all open runs are in the index; earlier versions had none.
const INDEXED: &str = "open-runs-indexed";

/// Takes up the runs of a thread that another process has accepted.
pub(crate) async fn take_up(app: &Arc<App>, thread: &str) -> Result<()> {
    for open in open::of_thread(app, thread).await? {
        take_up_one(app, &open).await?;
    }
    Ok(())
}

/// Takes up a run; says whether it is open.
async fn take_up_one(app: &Arc<App>, open: &OpenRun) -> Result<bool> {
    if app.runs.get(&open.run).is_some() {
        return Ok(true);
    }
    match find(app, &open.thread, &open.run).await {
        Ok(record) if record.status.is_open() => {
            enqueue(app, record, true, Strategy::Enqueue);
            Ok(true)
        }
        Ok(_) => Ok(false),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// A run that waits or is under way, in whatever process, or that this process remembers.
pub(crate) async fn live(app: &Arc<App>, record: &RunRecord) -> Result<Option<Arc<LiveRun>>> {
    if app.runs.get(&record.run_id).is_none() && record.status.is_open() {
        take_up(app, &record.thread_id).await?;
    }
    Ok(app.runs.get(&record.run_id))
}

/// Ends a run, in whatever process it is worked on.
pub(crate) async fn end(app: &App, run: &LiveRun, how: CancelAction) -> Result<()> {
    if run.recovered {
        open::request_cancel(app, &run.thread, &run.id, how).await?;
    }
    run.end(how);
    Ok(())
}

/// Takes up all runs that are open.
pub(super) async fn take_up_all(app: &Arc<App>) -> Result<()> {
    for open in open::all(app).await? {
        take_up_one(app, &open).await?;
    }
    Ok(())
}

/// Takes up what an earlier process had accepted and not finished.
pub(crate) async fn recover(app: &Arc<App>) -> Result<(), StoreError> {
    let own = ["deepagents-server".to_owned()];
    if app.store.get(&own, INDEXED).await?.is_none() {
        index_all(app).await?;
        app.store.put(&own, INDEXED, json!(true)).await?;
    }
    for open in open::all(app).await? {
        let Some(record) = stored(app, &open).await? else { continue };
        if record.status.is_open() {
            enqueue(app, record, true, Strategy::Enqueue);
        } else {
            open::remove(app, &open.thread, &open.run).await;
        }
    }
    Ok(())
}

async fn stored(app: &App, open: &OpenRun) -> Result<Option<RunRecord>, StoreError> {
    let item = app.store.get(&super::record::namespace(&open.thread), &open.run).await?;
    Ok(item.and_then(|item| serde_json::from_value(item.value).ok()))
}

/// Puts the open runs of earlier versions into the index.
async fn index_all(app: &App) -> Result<(), StoreError> {
    let mut query = NamespaceQuery::default();
    query.prefix = vec!["deepagents-server".to_owned(), "runs".to_owned()];
    for namespace in app.store.list_namespaces(&query).await? {
        let found = app.store.search(&namespace, &Default::default()).await?;
        let records = found.into_iter().filter_map(|item| serde_json::from_value::<RunRecord>(item.value).ok());
        for record in records.filter(|record| record.status.is_open()) {
            open::add(app, &record).await?;
        }
    }
    Ok(())
}

/// Looks at what other processes do and ask for, as long as the server is there.
pub(crate) async fn watch(app: Weak<App>) {
    let (mut unknown, mut looked) = (HashMap::new(), Instant::now());
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(app) = app.upgrade() else { return };
        if *app.closing.borrow() {
            return;
        }
        if app.runs.concerns_somebody() || looked.elapsed() >= app.lease {
            looked = Instant::now();
            // Where the storage is away it is looked at a little later.
            let _ = look(&app, &mut unknown).await;
        }
    }
}

/// Ends what is to be ended, shows what is followed here, and takes up what nobody has worked on for the time of a lease.
async fn look(app: &Arc<App>, unknown: &mut HashMap<String, Instant>) -> Result<()> {
    let open = open::all(app).await?;
    unknown.retain(|run, _| open.iter().any(|open| open.run == *run));
    for open in open {
        if let Some(run) = app.runs.get(&open.run) {
            if let Some(how) = open.value.cancel {
                run.end(how);
            }
            continue;
        }
        let since = *unknown.entry(open.run.clone()).or_insert_with(Instant::now);
        if app.runs.is_followed(&open.thread) {
            take_up_one(app, &open).await?;
        } else if since.elapsed() >= app.lease {
            unknown.insert(open.run.clone(), Instant::now());
            look_at_unknown(app, &open).await?;
        }
    }
    Ok(())
}

/// A run that this process does not have, and whose process may be no more.
async fn look_at_unknown(app: &Arc<App>, open: &OpenRun) -> Result<()> {
    let is_owned = app.journal.threads().get(&open.thread).await?.is_some_and(|info| info.owner.is_some());
    match stored(app, open).await? {
        Some(record) if record.status.is_open() => {
            if !is_owned && until_due(&record).is_zero() {
                enqueue(app, record, true, Strategy::Enqueue);
            }
        }
        _ => open::remove(app, &open.thread, &open.run).await,
    }
    Ok(())
}
