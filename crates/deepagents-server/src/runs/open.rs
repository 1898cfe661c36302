//! The index of pending and running runs in all processes. It locates runs that other processes accepted and carries
//! cancellation requests to them.

use std::time::Duration;

use deepagents_core::store::{Item, Query, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::live::CancelAction;
use super::record::RunRecord;
use crate::app::App;
use crate::error::Result;
use crate::records::Records;

/// An entry of the index with its key.
#[derive(Debug)]
pub(super) struct OpenRun {
    pub(super) thread: String,
    pub(super) run: String,
    version: u64,
    pub(super) value: Entry,
}

/// The value of an entry.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Entry {
    /// The owner, if callers are authenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    /// How the process that executes the run should end it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancel: Option<CancelAction>,
    /// Whether the run has ended. The entry then stays for a while, for processes with subscribers to its thread.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) ended: bool,
}

/// Returns the entries of all threads.
fn root(app: &App) -> Records<'_> {
    app.records(&["open-runs"])
}

fn entries<'a>(app: &'a App, thread: &str) -> Records<'a> {
    app.records(&["open-runs", thread])
}

fn read(item: Item) -> Option<OpenRun> {
    let thread = item.namespace.last()?.clone();
    let value = serde_json::from_value(item.value).unwrap_or_default();
    Some(OpenRun { thread, run: item.key, version: item.version, value })
}

async fn sorted(entries: Records<'_>) -> Result<Vec<OpenRun>, StoreError> {
    let mut found: Vec<OpenRun> = entries.search(&Query::default()).await?.into_iter().filter_map(read).collect();
    // Ids are ordered by time.
    found.sort_by(|a, b| a.run.cmp(&b.run));
    Ok(found)
}

/// Returns all entries, oldest first, including runs that ended a moment ago.
pub(super) async fn all(app: &App) -> Result<Vec<OpenRun>, StoreError> {
    sorted(root(app)).await
}

/// Returns the open runs of a thread, oldest first.
pub(super) async fn of_thread(app: &App, thread: &str) -> Result<Vec<OpenRun>> {
    let mut found = sorted(entries(app, thread)).await?;
    found.retain(|open| !open.value.ended);
    Ok(found)
}

/// Returns the runs of a thread that ended a moment ago, oldest first.
pub(super) async fn ended_of_thread(app: &App, thread: &str) -> Result<Vec<OpenRun>> {
    let mut found = sorted(entries(app, thread)).await?;
    found.retain(|open| open.value.ended);
    Ok(found)
}

/// Whether a thread has a pending or running run in any process.
pub(crate) async fn has_open(app: &App, thread: &str) -> Result<bool> {
    Ok(!of_thread(app, thread).await?.is_empty())
}

/// Returns the number of a caller's runs.
pub(super) async fn count_of(app: &App, owner: &str) -> Result<usize> {
    let mut query = Query::default();
    query.fields.insert("owner".to_owned(), json!(owner));
    Ok(root(app).search(&query).await?.len())
}

/// Adds a run. Called before the run is stored, so that every stored run can be found.
pub(super) async fn add(app: &App, record: &RunRecord) -> Result<(), StoreError> {
    let entry = Entry { owner: record.owner.clone(), ..Entry::default() };
    entries(app, &record.thread_id).put(&record.run_id, &entry).await
}

/// Removes a run that has ended, or marks it as ended if other processes have subscribers. If the storage is
/// unavailable, the entry is removed when a process next checks it.
pub(super) async fn end(app: &App, thread: &str, run: &str) {
    if is_followed_elsewhere(app).await {
        let _ = entries(app, thread).put(run, &Entry { ended: true, ..Entry::default() }).await;
    } else {
        remove(app, thread, run).await;
    }
}

/// Removes a run that no longer exists.
pub(super) async fn remove(app: &App, thread: &str, run: &str) {
    let _ = entries(app, thread).delete(run).await;
}

/// Asks the process that executes a run to end it. Does nothing if the run has ended.
pub(super) async fn request_cancel(app: &App, thread: &str, run: &str, how: CancelAction) -> Result<()> {
    let entries = entries(app, thread);
    loop {
        let Some(open) = entries.item(run).await?.and_then(read) else { return Ok(()) };
        if open.value.cancel.is_some() || open.value.ended {
            return Ok(());
        }
        // If the entry has changed, the run was cancelled or has ended. Check again.
        if entries.replace(run, &Entry { cancel: Some(how), ..open.value }, Some(open.version)).await?.is_some() {
            return Ok(());
        }
    }
}

/// Returns the announcements of the processes that have subscribers.
fn following(app: &App) -> Records<'_> {
    app.records(&["following"])
}

/// How long the announcement of a process is valid.
const ANNOUNCEMENT_TTL: Duration = Duration::from_secs(15);

/// Announces that this process has subscribers.
pub(super) async fn announce_subscribers(app: &App) -> Result<()> {
    Ok(following(app).put_for(ANNOUNCEMENT_TTL, &app.process, &true).await?)
}

async fn is_followed_elsewhere(app: &App) -> bool {
    let found = following(app).search(&Query::default()).await;
    found.is_ok_and(|found| found.iter().any(|item| item.key != app.process))
}
