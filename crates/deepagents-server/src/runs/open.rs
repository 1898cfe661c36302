//! The index of the runs that wait or are under way, in whatever process: what those are found by that another process
//! accepted, and where it is noted that one is to be ended.

use std::time::Duration;

use deepagents_core::store::{Item, Query, StoreError, Write};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::live::CancelAction;
use super::record::RunRecord;
use crate::app::App;
use crate::error::Result;

/// An entry of the index.
#[derive(Debug)]
pub(super) struct OpenRun {
    pub(super) thread: String,
    pub(super) run: String,
    version: u64,
    pub(super) value: Entry,
}

/// What an entry says.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Entry {
    /// Whose run it is, where that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    /// How it is to be ended by the process that works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cancel: Option<CancelAction>,
    /// Whether it has ended. It is there for a while for the processes where somebody follows its thread.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) ended: bool,
}

const ROOT: [&str; 2] = ["deepagents-server", "open-runs"];

fn root() -> Vec<String> {
    ROOT.map(str::to_owned).to_vec()
}

fn namespace(thread: &str) -> Vec<String> {
    ROOT.into_iter().chain([thread]).map(str::to_owned).collect()
}

fn read(item: Item) -> Option<OpenRun> {
    let thread = item.namespace.last()?.clone();
    let value = serde_json::from_value(item.value).unwrap_or_default();
    Some(OpenRun { thread, run: item.key, version: item.version, value })
}

async fn search(app: &App, prefix: &[String], query: &Query) -> Result<Vec<OpenRun>, StoreError> {
    let mut found: Vec<OpenRun> = app.store.search(prefix, query).await?.into_iter().filter_map(read).collect();
    // Ids are made in the order of time.
    found.sort_by(|a, b| a.run.cmp(&b.run));
    Ok(found)
}

/// All of them, oldest first, and those that have ended a moment ago.
pub(super) async fn all(app: &App) -> Result<Vec<OpenRun>, StoreError> {
    search(app, &root(), &Query::default()).await
}

/// Those of a thread, oldest first.
pub(super) async fn of_thread(app: &App, thread: &str) -> Result<Vec<OpenRun>> {
    let mut found = search(app, &namespace(thread), &Query::default()).await?;
    found.retain(|open| !open.value.ended);
    Ok(found)
}

/// Whether a thread has a run that waits or is under way, in whatever process.
pub(crate) async fn has_open(app: &App, thread: &str) -> Result<bool> {
    Ok(!of_thread(app, thread).await?.is_empty())
}

/// How many runs of a caller there are.
pub(super) async fn count_of(app: &App, owner: &str) -> Result<usize> {
    let mut query = Query::default();
    query.fields.insert("owner".to_owned(), json!(owner));
    Ok(app.store.search(&root(), &query).await?.len())
}

/// Adds a run. That is done before the run is stored, so that none is stored that cannot be found.
pub(super) async fn add(app: &App, record: &RunRecord) -> Result<(), StoreError> {
    let entry = Entry { owner: record.owner.clone(), ..Entry::default() };
    app.store.put(&namespace(&record.thread_id), &record.run_id, json!(entry)).await?;
    Ok(())
}

/// Takes out a run that has ended; where threads are followed in other processes, so that they see it. An entry that stays, as
/// the storage is away, is removed when it is looked at.
pub(super) async fn end(app: &App, thread: &str, run: &str) {
    if is_followed_elsewhere(app).await {
        let entry = Entry { ended: true, ..Entry::default() };
        let _ = app.store.put(&namespace(thread), run, json!(entry)).await;
    } else {
        remove(app, thread, run).await;
    }
}

/// Removes a run that is no more.
pub(super) async fn remove(app: &App, thread: &str, run: &str) {
    let _ = app.store.delete(&namespace(thread), run).await;
}

/// Asks the process that works on a run to end it, whichever that is. A run that has ended meanwhile is left alone.
pub(super) async fn request_cancel(app: &App, thread: &str, run: &str, how: CancelAction) -> Result<()> {
    loop {
        let Some(open) = app.store.get(&namespace(thread), run).await?.and_then(read) else { return Ok(()) };
        if open.value.cancel.is_some() || open.value.ended {
            return Ok(());
        }
        let entry = Entry { cancel: Some(how), ..open.value };
        match app.store.put_if(&namespace(thread), run, json!(entry), Some(open.version)).await {
            Ok(_) => return Ok(()),
            // Somebody else asked for it, or it has ended.
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The processes in which somebody follows threads.
fn following() -> [String; 2] {
    ["deepagents-server".to_owned(), "following".to_owned()]
}

/// So long a process counts as one in which somebody follows threads.
const FOLLOWS: Duration = Duration::from_secs(15);

/// Notes that somebody follows threads here.
pub(super) async fn note_following(app: &App) -> Result<()> {
    let write = Write { ttl: Some(FOLLOWS), ..Write::default() };
    app.store.write(&following(), &app.process, json!(true), write).await?;
    Ok(())
}

async fn is_followed_elsewhere(app: &App) -> bool {
    let found = app.store.search(&following(), &Query::default()).await;
    found.is_ok_and(|found| found.iter().any(|item| item.key != app.process))
}
