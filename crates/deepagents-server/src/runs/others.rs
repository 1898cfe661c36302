//! Runs that other processes on the same storage accepted and work on.
//!
//! Whoever is asked for one of them takes it up: it then waits here as one of this process does, and is worked on by
//! whoever has the lease of its thread, so that its streams go on, later runs of the thread come behind it, and it is gone
//! on with where its process is no more.

use std::collections::{HashMap, HashSet};
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
use crate::auth::owns;
use crate::error::Result;
use crate::stream::past;
use crate::webhooks;

/// Between one look at what other processes asked for and the next, while there is somebody here whom it concerns.
const LOOK: Duration = Duration::from_secs(1);

/// Between one word to other processes that threads are followed here and the next.
const TELL: Duration = Duration::from_secs(5);

/// How long a run that has ended is there for other processes to show.
const SHOWN: Duration = Duration::from_secs(10);

/// Under which key it is noted that all open runs are in the index; earlier versions had none.
const INDEXED: &str = "open-runs-indexed";

/// Takes up the runs of a thread that another process has accepted.
pub(crate) async fn take_up(app: &Arc<App>, thread: &str) -> Result<()> {
    for open in open::of_thread(app, thread).await? {
        take_up_one(app, &open).await?;
    }
    Ok(())
}

/// Takes up a run.
async fn take_up_one(app: &Arc<App>, open: &OpenRun) -> Result<()> {
    if app.runs.get(&open.run).is_some() {
        return Ok(());
    }
    match find(app, &open.thread, &open.run).await {
        // Another process may serve other agents.
        Ok(record) if record.status.is_open() && app.agent(&record.graph_id).is_some() => {
            enqueue(app, record, true, Strategy::Enqueue);
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
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

/// Takes up all open runs of who calls: what is taken up is looked at again and again from then on.
pub(super) async fn take_up_all(app: &Arc<App>) -> Result<()> {
    let is_meant = |open: &&OpenRun| !open.value.ended && owns(open.value.owner.as_deref());
    for open in open::all(app).await?.iter().filter(is_meant) {
        take_up_one(app, open).await?;
    }
    Ok(())
}

/// Begins to show the runs of a thread to somebody: other processes are told that there is somebody.
pub(crate) async fn follow(app: &Arc<App>, thread: &str) -> Result<()> {
    tell_following(app).await?;
    take_up(app, thread).await
}

async fn tell_following(app: &App) -> Result<()> {
    if app.runs.is_following_due(TELL) { open::note_following(app).await } else { Ok(()) }
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
    let (mut seen, mut looked, mut told) = (HashMap::new(), Instant::now(), Instant::now());
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(app) = app.upgrade() else { return };
        if *app.closing.borrow() {
            return;
        }
        if app.runs.concerns_somebody() || looked.elapsed() >= app.lease {
            looked = Instant::now();
            // Where the storage is away it is looked at a little later.
            let _ = look(&app, &mut seen).await;
        }
        if told.elapsed() >= app.lease {
            told = Instant::now();
            let _ = webhooks::take_up_overdue(&app).await;
        }
    }
}

/// Ends what is to be ended, shows what is followed here, and takes up what nobody has worked on for the time of a lease.
async fn look(app: &Arc<App>, seen: &mut HashMap<String, Instant>) -> Result<()> {
    if app.runs.has_followers() {
        tell_following(app).await?;
    }
    // Before the index is read, in which a run is before it is here.
    let later = app.runs.all_later();
    let open = open::all(app).await?;
    if !later.is_empty() {
        let known: HashSet<&str> = open.iter().filter(|open| !open.value.ended).map(|open| &*open.run).collect();
        // What another process has ended or removed is not waited for until its time comes.
        later.iter().filter(|run| !known.contains(&*run.id)).for_each(|run| run.end(CancelAction::Interrupt));
    }
    seen.retain(|run, _| open.iter().any(|open| open.run == *run));
    for open in open {
        let since = *seen.entry(open.run.clone()).or_insert_with(Instant::now);
        if let Some(run) = app.runs.get(&open.run) {
            if open.value.ended && since.elapsed() >= SHOWN {
                open::remove(app, &open.thread, &open.run).await;
            } else if let Some(how) = open.value.cancel {
                run.end(how);
            }
        } else if app.runs.is_followed(&open.thread) {
            show(app, &open).await?;
        } else if since.elapsed() >= app.lease {
            seen.insert(open.run.clone(), Instant::now());
            look_at_unknown(app, &open).await?;
        }
    }
    Ok(())
}

/// Shows a run of another process to those who follow its thread here.
async fn show(app: &Arc<App>, open: &OpenRun) -> Result<()> {
    if !open.value.ended {
        return take_up_one(app, open).await;
    }
    if let Some(record) = stored(app, open).await?
        && let Some(run) = past(app, &record).await?
    {
        app.runs.show(&run);
    }
    Ok(())
}

/// A run that this process does not have, and whose process may be no more.
async fn look_at_unknown(app: &Arc<App>, open: &OpenRun) -> Result<()> {
    let is_owned = app.journal.threads().get(&open.thread).await?.is_some_and(|info| app.is_owned(&info));
    match stored(app, open).await? {
        Some(record) if record.status.is_open() => {
            if !is_owned && until_due(&record).is_zero() && app.agent(&record.graph_id).is_some() {
                enqueue(app, record, true, Strategy::Enqueue);
            }
        }
        _ => open::remove(app, &open.thread, &open.run).await,
    }
    Ok(())
}
