//! Routes for threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::change::{Superstep, begin_with, read_changes};
use super::history::{history, history_by_query};
use super::prune::{PruneStrategy, prune_thread};
use super::record::{ThreadRecord, make, shown};
use super::search::{count, search};
use super::state_routes::{state, state_at, state_by_checkpoint, update_state};
use super::ttl::{self, Ttl, touch};
use crate::app::{App, METADATA_KEY};
use crate::auth::{caller, owns_thread};
use crate::body::{Body, Pairs};
use crate::deserialize::present;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::json::set;
use crate::reservation::{Name, with_reservation};

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/threads", post(create))
        .route("/threads/search", post(search))
        .route("/threads/count", post(count))
        .route("/threads/prune", post(prune))
        .route("/threads/{id}", get(one).patch(update).delete(delete))
        .route("/threads/{id}/copy", post(copy))
        .route("/threads/{id}/state", get(state).post(update_state))
        .route("/threads/{id}/state/{checkpoint}", get(state_at))
        .route("/threads/{id}/state/checkpoint", post(state_by_checkpoint))
        .route("/threads/{id}/history", get(history_by_query).post(history))
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum IfExists {
    #[default]
    Raise,
    DoNothing,
}

#[derive(Deserialize)]
struct Create {
    #[serde(default, deserialize_with = "present")]
    thread_id: Option<String>,
    #[serde(default, deserialize_with = "present")]
    metadata: Option<Map<String, Value>>,
    if_exists: Option<IfExists>,
    ttl: Option<Ttl>,
    #[serde(default)]
    supersteps: Vec<Superstep>,
}

async fn create(State(app): State<Arc<App>>, Body(body): Body<Create>) -> Result<Json<Value>> {
    let Some(id) = &body.thread_id else { return create_thread(&app, ids::fresh(), body).await };
    let id = ids::check("thread ID", id)?;
    with_reservation(&app, Name::Thread(&id), create_thread(&app, id.clone(), body)).await
}

async fn create_thread(app: &Arc<App>, id: String, body: Create) -> Result<Json<Value>> {
    if let Some(info) = app.journal.threads().get(&id).await? {
        return match body.if_exists.unwrap_or_default() {
            IfExists::DoNothing if owns_thread(&info) => Ok(Json(shown(app, &info, true).await?)),
            _ => Err(ApiError::conflict(format!("Thread with ID {id} already exists"))),
        };
    }
    let ttl = body.ttl.map(Ttl::read).transpose()?;
    let metadata = body.metadata.unwrap_or_default();
    let changes = read_changes(app, metadata.get("graph_id"), body.supersteps)?;
    let mut held = ThreadRecord::default();
    if let Some((minutes, strategy)) = ttl {
        (held.ttl, held.ttl_strategy) = (Some(minutes), strategy);
    }
    // The expiry is stored first; an expiry without a thread does no harm.
    touch(app, &id, &held).await?;
    make(app, &id, metadata, held).await?;
    if let Err(error) = Box::pin(begin_with(app, &id, changes)).await {
        // Creation is all or nothing.
        super::delete(app, &id).await?;
        return Err(error);
    }
    Ok(Json(shown(app, &app.thread(&id).await?, true).await?))
}

async fn one(State(app): State<Arc<App>>, Path(id): Path<String>, query: Pairs) -> Result<Json<Value>> {
    let info = app.thread(&id).await?;
    let mut thread = shown(&app, &info, true).await?;
    if query.all::<String>("include")?.iter().any(|field| field == "ttl")
        && let Some(ttl) = ttl::shown(&app, &info).await?
    {
        set(&mut thread, "ttl", ttl);
    }
    Ok(Json(thread))
}

#[derive(Deserialize)]
struct Patch {
    #[serde(default, deserialize_with = "present")]
    metadata: Option<Map<String, Value>>,
    ttl: Option<Ttl>,
}

async fn update(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(body): Body<Patch>,
) -> Result<Response> {
    let info = app.thread(&id).await?;
    let mut metadata = body.metadata.unwrap_or_default();
    app.take_own(&mut metadata);
    if let Some((minutes, strategy)) = body.ttl.map(Ttl::read).transpose()? {
        let held = ThreadRecord { ttl: Some(minutes), ttl_strategy: strategy, ..ThreadRecord::read(&info) };
        metadata.insert(METADATA_KEY.to_owned(), json!(held));
        touch(&app, &id, &held).await?;
    }
    app.update_metadata(&id, metadata).await?;
    let prefer = headers.get("prefer").and_then(|prefer| prefer.to_str().ok()).unwrap_or_default();
    if prefer.split([',', ';']).any(|one| one.trim().eq_ignore_ascii_case("return=minimal")) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(Json(shown(&app, &app.thread(&id).await?, true).await?).into_response())
}

async fn delete(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<StatusCode> {
    app.thread(&id).await?;
    super::delete(&app, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct PruneThreads {
    thread_ids: Vec<String>,
    #[serde(default)]
    strategy: PruneStrategy,
}

async fn prune(State(app): State<Arc<App>>, Body(body): Body<PruneThreads>) -> Result<Json<Value>> {
    // All threads are checked before any is changed. Missing ones are ignored.
    let mut found = BTreeMap::new();
    for id in &body.thread_ids {
        match app.thread(id).await {
            Ok(info) => {
                found.insert(info.id.clone(), info);
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    for info in found.values() {
        prune_thread(&app, info, body.strategy).await?;
    }
    Ok(Json(json!({"pruned_count": found.len()})))
}

async fn copy(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Value>> {
    let info = app.thread(&id).await?;
    let to = ids::fresh();
    if info.end > 0 {
        app.journal.threads().copy(&id, &to, None).await?;
        // The copy belongs to whoever made it, and does not inherit the time to live.
        let held = ThreadRecord { ttl: None, ttl_strategy: PruneStrategy::default(), ..ThreadRecord::read(&info) };
        let own = [(METADATA_KEY.to_owned(), json!(held))].into_iter().chain(caller().map(|caller| caller.mark()));
        app.update_metadata(&to, own.collect()).await?;
    } else {
        make(&app, &to, info.metadata, ThreadRecord::default()).await?;
    }
    Ok(Json(shown(&app, &app.thread(&to).await?, false).await?))
}
