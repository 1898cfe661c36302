//! Routes to read the state of a thread, now or at a checkpoint, and to update it.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;
use deepagents_core::agent::RewindPlan;
use deepagents_core::journal::ThreadInfo;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::change::{ChangedBy, change, changed_by, check_change, copy_state};
use super::checkpoint_ref::CheckpointRef;
use super::completed::completed;
use super::record::{ThreadRecord, set_own};
use super::state::{RunMetadata, fresh, shown_entries, thread_state};
use super::stopped::{has_next, unhide_log_end};
use super::sub_states::{WaitingAgents, sub_state};
use crate::app::App;
use crate::body::{Body, Pairs, is_true};
use crate::error::{ApiError, Result};
use crate::ids;
use crate::render::written;
use crate::stream::StateUpdate;
use crate::wire::read_update;

/// Returns the newest state that clients see, with the states of waiting sub-agents if they are wanted.
async fn newest(app: &App, id: &str, subgraphs: bool) -> Result<Response> {
    let info = app.thread(id).await?;
    let entries = app.entries(&info).await?;
    let Some(head) = shown_entries(&entries, &info).next() else { return written(fresh(&info)).await };
    let mut state = thread_state(app, &info, head, None, &mut RunMetadata::new(app, id)).await?;
    if subgraphs {
        WaitingAgents::read(app, &info).await?.fill_in(&mut state)?;
    }
    written(state).await
}

pub(super) async fn state(State(app): State<Arc<App>>, Path(id): Path<String>, query: Pairs) -> Result<Response> {
    newest(&app, &id, is_true(query.one("subgraphs"))).await
}

/// Returns the state at a checkpoint. Sub-agents are shown as they are now, thus only in the newest state.
async fn at(app: &App, id: &str, checkpoint: &str, subgraphs: bool) -> Result<Response> {
    let info = app.thread(id).await?;
    let entries = app.entries(&info).await?;
    let (index, entry) = entries.find(checkpoint)?;
    let newer = index.checked_sub(1).and_then(|newer| entries.newest_first().nth(newer));
    let mut state = thread_state(app, &info, entry, newer, &mut RunMetadata::new(app, id)).await?;
    if subgraphs && newer.is_none() {
        WaitingAgents::read(app, &info).await?.fill_in(&mut state)?;
    }
    written(state).await
}

pub(super) async fn state_at(
    State(app): State<Arc<App>>,
    Path((id, checkpoint)): Path<(String, String)>,
    query: Pairs,
) -> Result<Response> {
    at(&app, &id, &checkpoint, is_true(query.one("subgraphs"))).await
}

#[derive(Deserialize)]
pub(super) struct ByCheckpoint {
    checkpoint: CheckpointRef,
    subgraphs: Option<bool>,
}

pub(super) async fn state_by_checkpoint(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(body): Body<ByCheckpoint>,
) -> Result<Response> {
    let subgraphs = body.subgraphs.unwrap_or_default();
    match (body.checkpoint.namespace(), body.checkpoint.id()) {
        (None, Some(checkpoint)) => at(&app, &id, checkpoint, subgraphs).await,
        (None, None) => newest(&app, &id, subgraphs).await,
        // Only the newest states of sub-agents can be read.
        (Some(_), Some(checkpoint)) => Err(ApiError::not_found("Checkpoint", checkpoint)),
        (Some(namespace), None) => {
            let info = app.thread(&id).await?;
            written(sub_state(&app, &info, namespace, subgraphs).await?).await
        }
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
    let unfinished = has_next(app, &info, None).await?;
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
    let checkpoint = body.checkpoint.as_ref().and_then(CheckpointRef::id).or(body.checkpoint_id.as_deref());
    let at = match checkpoint {
        Some(checkpoint) => Some(app.entries(&info).await?.find(checkpoint)?.1.state.unwrap_or(0)),
        None => None,
    };
    let values = body.values.unwrap_or_default();
    let update = read_update(threads.schema(), &*completed(&threads, &id, at, &values).await?)?;
    let by = body.as_node.as_deref().map(|name| changed_by(name, &update)).transpose()?;
    let info = unhide_log_end(&app, info, true).await?;
    let node = match by {
        Some(ChangedBy::Node(node)) => Some(node),
        Some(ChangedBy::Copy) => {
            copy_state(&app, &id, checkpoint).await?;
            return updated(&app, &id).await;
        }
        None => None,
    };
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
    updated(&app, &id).await
}

/// Stores that a state has changed, tells the readers of the thread, and returns its new checkpoint.
async fn updated(app: &App, id: &str) -> Result<Json<Value>> {
    let state_updated_at = Some(ids::now());
    let changed = |held| ThreadRecord { error: None, stopped_at: None, state_updated_at, ..held };
    let info = note(app, id, changed).await?;
    let entries = app.entries(&info).await?;
    if let Some(newest) = entries.newest().filter(|_| app.state_updates.receiver_count() > 0) {
        let info = app.thread(id).await?;
        let state = thread_state(app, &info, newest, None, &mut RunMetadata::new(app, id)).await?;
        // There may be no receiver left.
        let _ = app.state_updates.send(Arc::new(StateUpdate { thread: id.to_owned(), end: info.end, state }));
    }
    let head = entries.newest().map(|entry| entry.place.id());
    let checkpoint = json!({"thread_id": id, "checkpoint_ns": "", "checkpoint_id": head});
    Ok(Json(json!({"checkpoint": checkpoint, "configurable": checkpoint, "checkpoint_id": head})))
}
