//! The routes of threads.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use deepagents_core::agent::ThreadAccess;
use deepagents_core::interrupt::{ActionRequestChange, ActionRequests};
use deepagents_core::journal::RetentionPolicy;
use deepagents_core::run::Node;
use deepagents_core::state::Update;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::page::{Limit, contains};
use super::record::{Held, set_own, shown};
use super::run_metadata::RunMetadata;
use super::search::{count, search};
use super::state::{fresh, shown_entries, thread_state};
use super::stopped::{calls_left_behind, changes_what_is_asked, has_next, leave_stop};
use super::ttl::{Ttl, touch};
use crate::app::{App, OWN};
use crate::auth::{caller, owns_thread};
use crate::body::{Body, Params, present};
use crate::error::{ApiError, Result};
use crate::ids;
use crate::runs::Command;
use crate::stream::StateUpdate;
use crate::wire::read_update;

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

/// Changes that a new thread begins with, one after the other.
#[derive(Deserialize)]
struct Superstep {
    updates: Vec<Change>,
}

#[derive(Deserialize)]
struct Change {
    values: Option<Value>,
    command: Option<Command>,
    as_node: String,
}

/// Reads the changes that a thread of an agent is to begin with.
fn read_changes(app: &App, graph: Option<&Value>, steps: &[Superstep]) -> Result<Vec<(Node, Update)>> {
    let changes: Vec<&Change> = steps.iter().flat_map(|step| &step.updates).collect();
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let graph = graph.and_then(Value::as_str).ok_or_else(|| {
        ApiError::invalid("a thread with `supersteps` needs `graph_id` in its metadata, which says whose state it is")
    })?;
    let served = app.agent(graph).ok_or_else(|| ApiError::not_found("Graph", graph))?;
    let read = |change: &Change| {
        let told = change.command.as_ref().and_then(|command| command.update.as_ref());
        let mut update = Update::none();
        for values in change.values.iter().chain(told) {
            let read = read_update(served.threads.schema(), values);
            update = update.and(read.map_err(|error| ApiError::invalid(error.to_string()))?);
        }
        Ok((node(&change.as_node)?, update))
    };
    changes.into_iter().map(read).collect()
}

/// Makes a thread that there is not.
pub(crate) async fn make(app: &App, id: &str, mut metadata: Map<String, Value>, held: Held) -> Result<()> {
    // So that it is there although nothing was said in it.
    app.take_own(&mut metadata);
    metadata.insert(OWN.to_owned(), json!(held));
    metadata.extend(caller().map(|caller| caller.mark()));
    app.set_metadata(id, metadata).await
}

async fn create(State(app): State<Arc<App>>, Body(body): Body<Create>) -> Result<Json<Value>> {
    let id = body.thread_id.unwrap_or_else(ids::fresh);
    let id = ids::check("thread ID", &id)?;
    if let Some(info) = app.journal.threads().get(&id).await? {
        return match body.if_exists.unwrap_or_default() {
            IfExists::DoNothing if owns_thread(&info) => Ok(Json(shown(&app, &info, true).await?)),
            _ => Err(ApiError::conflict(format!("Thread with ID {id} already exists"))),
        };
    }
    let ttl = body.ttl.map(Ttl::read).transpose()?;
    let metadata = body.metadata.unwrap_or_default();
    let changes = read_changes(&app, metadata.get("graph_id"), &body.supersteps)?;
    let held = Held { ttl, ..Held::default() };
    // First, as nothing is wrong with the end of a thread that is not made.
    if let Some(minutes) = ttl {
        touch(&app, &id, minutes).await?;
    }
    make(&app, &id, metadata, held).await?;
    if let Err(error) = begin_with(&app, &id, changes).await {
        // All of it or nothing.
        super::delete(&app, &id).await?;
        return Err(error);
    }
    Ok(Json(shown(&app, &app.thread(&id).await?, true).await?))
}

async fn begin_with(app: &App, thread: &str, changes: Vec<(Node, Update)>) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let threads = app.threads_of(&app.thread(thread).await?)?;
    for (node, update) in changes {
        change(&threads, thread, Some(node), update).await?;
    }
    Ok(())
}

async fn one(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Value>> {
    let info = app.thread(&id).await?;
    Ok(Json(shown(&app, &info, true).await?))
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
    if let Some(minutes) = body.ttl.map(Ttl::read).transpose()? {
        let held = Held { ttl: Some(minutes), ..Held::read(&info) };
        metadata.insert(OWN.to_owned(), json!(held));
        touch(&app, &id, minutes).await?;
    }
    app.set_metadata(&id, metadata).await?;
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

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Prune {
    #[default]
    Delete,
    KeepLatest,
}

#[derive(Deserialize)]
struct PruneThreads {
    thread_ids: Vec<String>,
    #[serde(default)]
    strategy: Prune,
}

async fn prune(State(app): State<Arc<App>>, Body(body): Body<PruneThreads>) -> Result<Json<Value>> {
    // All are looked at before any is changed; those that are gone already are what is wanted.
    let mut found = Vec::new();
    for id in &body.thread_ids {
        match app.thread(id).await {
            Ok(info) => found.push(info),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    for info in &found {
        match body.strategy {
            Prune::Delete => super::delete(&app, &info.id).await?,
            Prune::KeepLatest if info.end == 0 => {}
            Prune::KeepLatest => {
                let info = &leave_stop(&app, info.clone(), true).await?;
                app.threads_of(info)?.prune(&info.id, &RetentionPolicy::Latest).await?;
                app.checkpoints.forget(&info.id);
            }
        }
    }
    Ok(Json(json!({"pruned_count": found.len()})))
}

async fn copy(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Value>> {
    let info = app.thread(&id).await?;
    let to = ids::fresh();
    if info.end > 0 {
        app.journal.threads().copy(&id, &to, None).await?;
    } else {
        make(&app, &to, info.metadata, Held::default()).await?;
    }
    Ok(Json(shown(&app, &app.thread(&to).await?, false).await?))
}

async fn state(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Value>> {
    let info = app.thread(&id).await?;
    let entries = app.checkpoints.entries(&app.threads_of(&info)?, &info).await?;
    Ok(Json(match shown_entries(&entries, &info).next() {
        Some(head) => thread_state(&app, &info, head, None, &mut RunMetadata::new(&app, &id)).await?,
        None => fresh(&info),
    }))
}

async fn at(app: &App, id: &str, checkpoint: &str) -> Result<Json<Value>> {
    let info = app.thread(id).await?;
    let entries = app.checkpoints.entries(&app.threads_of(&info)?, &info).await?;
    let (index, entry) = entries.find(checkpoint)?;
    let newer = index.checked_sub(1).and_then(|newer| entries.newest_first().nth(newer));
    Ok(Json(thread_state(app, &info, entry, newer, &mut RunMetadata::new(app, id)).await?))
}

async fn state_at(State(app): State<Arc<App>>, Path((id, checkpoint)): Path<(String, String)>) -> Result<Json<Value>> {
    at(&app, &id, &checkpoint).await
}

/// A checkpoint as clients name it: an object with its id, or the id alone.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum CheckpointRef {
    Id(String),
    Object {
        checkpoint_id: Option<String>,
        /// That of a sub-agent, where it is not empty.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint_ns: Option<String>,
        /// A whole configuration, which holds it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        configurable: Option<Box<CheckpointRef>>,
    },
}

impl CheckpointRef {
    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::Id(id) => Some(id),
            Self::Object { checkpoint_id, configurable, .. } => {
                checkpoint_id.as_deref().or_else(|| configurable.as_ref()?.id())
            }
        }
    }

    /// Whether it is of the thread itself.
    fn is_of_thread(&self) -> bool {
        match self {
            Self::Id(_) => true,
            Self::Object { checkpoint_ns, .. } => checkpoint_ns.as_ref().is_none_or(String::is_empty),
        }
    }
}

#[derive(Deserialize)]
struct ByCheckpoint {
    checkpoint: CheckpointRef,
}

async fn state_by_checkpoint(
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
struct UpdateState {
    values: Option<Value>,
    as_node: Option<String>,
    checkpoint: Option<CheckpointRef>,
    checkpoint_id: Option<String>,
}

/// A node by its name.
fn node(name: &str) -> Result<Node> {
    Ok(match name {
        "__start__" => Node::Input,
        "model" => Node::Model,
        "tools" => Node::Tools,
        "__end__" => Node::End,
        other => {
            return Err(ApiError::bad_request(format!(
                "`{other}` is no node; those are __start__, model, tools and __end__"
            )));
        }
    })
}

/// Changes a state, as a node if one is named: then what its last run had under way, and what it asked, is over.
async fn change(threads: &ThreadAccess, thread: &str, node: Option<Node>, update: Update) -> Result<()> {
    let state = threads.state(thread).await?;
    let mut after = state.clone();
    after.apply(&update).map_err(deepagents_core::error::Error::from)?;
    let (node, update) = match node {
        // What is asked is asked anew about the calls as they are then, where there are any.
        None if changes_what_is_asked(&state, &after) => {
            let is_answer = after.messages().iter().last().is_some_and(|last| last.as_assistant().is_some());
            (Some(if is_answer { Node::Model } else { Node::Input }), update)
        }
        Some(Node::Model) => (node, calls_left_behind(&state, &update).and(update)),
        node => (node, update),
    };
    match node {
        Some(node) => {
            let update = update.with::<ActionRequests>(vec![ActionRequestChange::Clear]);
            threads.update_state_as(thread, node, update).await?
        }
        None => threads.update_state(thread, update).await?,
    };
    Ok(())
}

async fn update_state(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(body): Body<UpdateState>,
) -> Result<Json<Value>> {
    let info = app.thread(&id).await?;
    let threads = app.threads_of(&info)?;
    let update = read_update(threads.schema(), &body.values.unwrap_or_default());
    let update = update.map_err(|error| ApiError::invalid(error.to_string()))?;
    let node = body.as_node.as_deref().map(node).transpose()?;
    let info = leave_stop(&app, info, true).await?;
    let checkpoint = body.checkpoint.as_ref().and_then(CheckpointRef::id).or(body.checkpoint_id.as_deref());
    if let Some(checkpoint) = checkpoint {
        let entries = app.checkpoints.entries(&threads, &info).await?;
        let (index, entry) = entries.find(checkpoint)?;
        if index > 0 {
            threads.rewind(&id, entry.state.unwrap_or(0)).await?;
        }
    }
    change(&threads, &id, node, update).await?;
    let info = app.thread(&id).await?;
    let held = Held {
        error: None,
        stopped_at: None,
        unfinished: has_next(&app, &info).await?,
        state_updated_at: Some(ids::now()),
        ..Held::read(&info)
    };
    set_own(&app, &id, &held).await?;
    let entries = app.checkpoints.entries(&threads, &info).await?;
    if let Some(newest) = entries.newest().filter(|_| app.state_updates.receiver_count() > 0) {
        let info = app.thread(&id).await?;
        let state = thread_state(&app, &info, newest, None, &mut RunMetadata::new(&app, &id)).await?;
        // Nobody may read any more.
        let _ = app.state_updates.send(Arc::new(StateUpdate { thread: id.clone(), end: info.end, state }));
    }
    let head = entries.newest().map(|entry| entry.place.id());
    let checkpoint = json!({"thread_id": id, "checkpoint_ns": "", "checkpoint_id": head});
    Ok(Json(json!({"checkpoint": checkpoint, "configurable": checkpoint, "checkpoint_id": head})))
}

#[derive(Deserialize)]
struct History {
    #[serde(default = "one_state")]
    limit: Limit,
    before: Option<CheckpointRef>,
    metadata: Option<Map<String, Value>>,
    /// The one that is looked for.
    checkpoint: Option<CheckpointRef>,
}

/// Official clients say how many they want; who says nothing is given the newest.
fn one_state() -> Limit {
    Limit::ONE
}

async fn history(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(body): Body<History>,
) -> Result<Json<Value>> {
    let info = app.thread(&id).await?;
    let entries = app.checkpoints.entries(&app.threads_of(&info)?, &info).await?;
    let from = match body.before.as_ref().and_then(CheckpointRef::id) {
        Some(before) => entries.find(before)?.0 + 1,
        None => 0,
    };
    if body.checkpoint.as_ref().is_some_and(|wanted| !wanted.is_of_thread()) {
        return Ok(Json(json!([])));
    }
    let only = body.checkpoint.as_ref().and_then(CheckpointRef::id).map(|id| entries.find(id)).transpose()?;
    let wanted = body.metadata.unwrap_or_default();
    let mut runs = RunMetadata::new(&app, &id);
    let (limit, mut out) = (body.limit.get(), Vec::new());
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
        known.extend([
            ("source".to_owned(), json!(entry.source)),
            ("step".to_owned(), json!(entry.step)),
            ("run_id".to_owned(), json!(entry.run)),
        ]);
        let passes = |(key, value): (&String, &Value)| {
            let one = Map::from_iter([(key.clone(), value.clone())]);
            contains(&known, &one) || (!known.contains_key(key) && contains(&info.metadata, &one))
        };
        if wanted.iter().all(passes) {
            out.push(thread_state(&app, &info, entry, newer, &mut runs).await?);
        }
    }
    Ok(Json(Value::Array(out)))
}

#[derive(Deserialize)]
struct HistoryQuery {
    #[serde(default = "one_state")]
    limit: Limit,
    before: Option<String>,
}

async fn history_by_query(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Params(query): Params<HistoryQuery>,
) -> Result<Json<Value>> {
    let before = query.before.map(CheckpointRef::Id);
    history(State(app), Path(id), Body(History { limit: query.limit, before, metadata: None, checkpoint: None })).await
}
