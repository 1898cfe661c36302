//! Routes to read the state of a thread, now or at a checkpoint, and to update it.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use deepagents_core::agent::RewindPlan;
use deepagents_core::journal::ThreadInfo;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::change::{change, check_change, node};
use super::checkpoint_ref::CheckpointRef;
use super::record::{ThreadRecord, set_own};
use super::state::{RunMetadata, fresh, shown_entries, thread_state};
use super::stopped::{has_next, unhide_log_end};
use crate::app::App;
use crate::body::Body;
use crate::error::Result;
use crate::ids;
use crate::stream::StateUpdate;
use crate::wire::read_update;

pub(super) async fn state(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Value>> {
    let info = app.thread(&id).await?;
    let entries = app.entries(&info).await?;
    Ok(Json(match shown_entries(&entries, &info).next() {
        Some(head) => thread_state(&app, &info, head, None, &mut RunMetadata::new(&app, &id)).await?,
        None => fresh(&info),
    }))
}

async fn at(app: &App, id: &str, checkpoint: &str) -> Result<Json<Value>> {
    let info = app.thread(id).await?;
    let entries = app.entries(&info).await?;
    let (index, entry) = entries.find(checkpoint)?;
    let newer = index.checked_sub(1).and_then(|newer| entries.newest_first().nth(newer));
    Ok(Json(thread_state(app, &info, entry, newer, &mut RunMetadata::new(app, id)).await?))
}

pub(super) async fn state_at(
    State(app): State<Arc<App>>,
    Path((id, checkpoint)): Path<(String, String)>,
) -> Result<Json<Value>> {
    at(&app, &id, &checkpoint).await
}

#[derive(Deserialize)]
pub(super) struct ByCheckpoint {
    checkpoint: CheckpointRef,
}

pub(super) async fn state_by_checkpoint(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(body): Body<ByCheckpoint>,
) -> Result<Json<Value>> {
    match body.checkpoint.id() {
        Some(checkpoint) => at(&app, &id, checkpoint).await,
        None => state(State(app), Path(id)).await,
    }
}

#[derive(Deserialize)]
pub(super) struct UpdateState {
    values: Option<Map<String, Value>>,
    as_node: Option<String>,
    checkpoint: Option<CheckpointRef>,
    checkpoint_id: Option<String>,
}

/// Changes the server's data about a thread, and stores with them whether its state now has work left.
async fn note(app: &App, thread: &str, change: impl FnOnce(ThreadRecord) -> ThreadRecord) -> Result<ThreadInfo> {
    let info = app.thread(thread).await?;
    let unfinished = has_next(app, &info).await?;
    let held = ThreadRecord { unfinished, ..change(ThreadRecord::read(&info)) };
    set_own(app, thread, &held).await?;
    Ok(info)
}

pub(super) async fn update_state(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(body): Body<UpdateState>,
) -> Result<Json<Value>> {
    let info = app.thread(&id).await?;
    let threads = app.threads_of(&info)?;
    let update = read_update(threads.schema(), &body.values.unwrap_or_default())?;
    let node = body.as_node.as_deref().map(node).transpose()?;
    let info = unhide_log_end(&app, info, true).await?;
    let checkpoint = body.checkpoint.as_ref().and_then(CheckpointRef::id).or(body.checkpoint_id.as_deref());
    let mut left = None;
    if let Some(checkpoint) = checkpoint {
        let entries = app.entries(&info).await?;
        let (index, entry) = entries.find(checkpoint)?;
        if index > 0 {
            let position = entry.state.unwrap_or(0);
            // A refused update leaves no trace: going back and forth would ask open questions anew.
            check_change(&threads, &id, position, node, &update).await?;
            let nothing = async |_, _| Ok::<_, deepagents_core::error::Error>(RewindPlan::default());
            left = Some(threads.rewind_with(&id, position, nothing).await?.left);
        }
    }
    if let Err(refused) = change(&threads, &id, node, update).await {
        // The thread continues where it was.
        if let Some(left) = left {
            threads.rewind(&id, left).await?;
            note(&app, &id, |held| held).await?;
        }
        return Err(refused);
    }
    let state_updated_at = Some(ids::now());
    let changed = |held| ThreadRecord { error: None, stopped_at: None, state_updated_at, ..held };
    let info = note(&app, &id, changed).await?;
    let entries = app.entries(&info).await?;
    if let Some(newest) = entries.newest().filter(|_| app.state_updates.receiver_count() > 0) {
        let info = app.thread(&id).await?;
        let state = thread_state(&app, &info, newest, None, &mut RunMetadata::new(&app, &id)).await?;
        // There may be no receiver left.
        let _ = app.state_updates.send(Arc::new(StateUpdate { thread: id.clone(), end: info.end, state }));
    }
    let head = entries.newest().map(|entry| entry.place.id());
    let checkpoint = json!({"thread_id": id, "checkpoint_ns": "", "checkpoint_id": head});
    Ok(Json(json!({"checkpoint": checkpoint, "configurable": checkpoint, "checkpoint_id": head})))
}
