//! Routes for the history of a thread.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::checkpoint_ref::CheckpointRef;
use super::page::{Limit, contains_value};
use super::state::{RunMetadata, own_metadata, shown_entries, thread_states};
use crate::app::App;
use crate::body::{Body, Params};
use crate::deserialize::present;
use crate::error::Result;
use crate::render::written;

#[derive(Deserialize)]
pub(super) struct History {
    /// Official clients send one. Without it, only the newest state is returned.
    #[serde(default, deserialize_with = "present")]
    limit: Option<Limit>,
    before: Option<CheckpointRef>,
    metadata: Option<Map<String, Value>>,
    /// Return only this checkpoint.
    checkpoint: Option<CheckpointRef>,
}

pub(super) async fn history(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(body): Body<History>,
) -> Result<Response> {
    let info = app.thread(&id).await?;
    let entries = app.entries(&info).await?;
    let from = match body.before.as_ref().and_then(CheckpointRef::id) {
        Some(before) => entries.find(before)?.0 + 1,
        None => 0,
    };
    if body.checkpoint.as_ref().is_some_and(|wanted| wanted.namespace().is_some()) {
        return written(json!([])).await;
    }
    let only = body.checkpoint.as_ref().and_then(CheckpointRef::id).map(|id| entries.find(id)).transpose()?;
    let wanted = body.metadata.unwrap_or_default();
    let of_thread = app.shown_metadata(&info);
    let mut runs = RunMetadata::new(&app, &id);
    let (limit, mut out) = (body.limit.map_or(1, Limit::get), Vec::new());
    let hidden = entries.newest_first().count() - shown_entries(&entries, &info).count();
    let newer = std::iter::once(None).chain(shown_entries(&entries, &info).map(Some));
    let shown = (hidden..).zip(shown_entries(&entries, &info));
    for ((index, entry), newer) in shown.zip(newer).skip(from.saturating_sub(hidden)) {
        if out.len() == limit {
            break;
        }
        if only.is_some_and(|(wanted, _)| wanted != index) {
            continue;
        }
        let mut known = if wanted.is_empty() { Map::new() } else { runs.of(entry.run.as_deref()).await? };
        known.extend(own_metadata(&info, entry));
        if wanted.iter().all(|(key, wanted)| matches(known.get(key).or_else(|| of_thread.get(key)), wanted)) {
            out.push((entry, newer));
        }
    }
    let out = thread_states(&app, &info, &out, &mut runs).await?;
    written(Value::Array(out)).await
}

/// Whether a checkpoint's metadata matches. A missing key is null, as in the reference implementation.
fn matches(has: Option<&Value>, wanted: &Value) -> bool {
    match (has, wanted) {
        (None, wanted) => wanted.is_null(),
        (Some(has), wanted) => contains_value(has, wanted),
    }
}

#[derive(Deserialize)]
pub(super) struct HistoryQuery {
    limit: Option<Limit>,
    before: Option<String>,
}

pub(super) async fn history_by_query(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Params(query): Params<HistoryQuery>,
) -> Result<Response> {
    let before = query.before.map(CheckpointRef::Id);
    history(State(app), Path(id), Body(History { limit: query.limit, before, metadata: None, checkpoint: None })).await
}
