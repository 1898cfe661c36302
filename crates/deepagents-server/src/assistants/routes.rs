//! Routes for assistants.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use deepagents_core::journal::ThreadQuery;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::drawing;
use super::record::{Assistant, find, find_version};
use super::search::{count, search};
use crate::app::App;
use crate::auth::{caller_id, owns_thread};
use crate::body::{Body, Params};
use crate::deserialize::present;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::runs::mirror_context;
use crate::threads;
use crate::threads::{Limit, contains};

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/assistants", post(create))
        .route("/assistants/search", post(search))
        .route("/assistants/count", post(count))
        .route("/assistants/{id}", get(one).patch(update).delete(delete))
        .route("/assistants/{id}/versions", post(versions))
        .route("/assistants/{id}/latest", post(latest))
        .route("/assistants/{id}/graph", get(graph))
        .route("/assistants/{id}/schemas", get(schemas))
        .route("/assistants/{id}/subgraphs", get(subgraphs))
        .route("/assistants/{id}/subgraphs/{namespace}", get(subgraphs_below))
}

async fn known(app: &App, id: &str) -> Result<Assistant> {
    if let Some(known) = find(app, id).await? {
        return Ok(known);
    }
    // An invalid id that names no agent is a bad request, not a missing assistant.
    ids::check("assistant ID", id)?;
    Err(ApiError::not_found("Assistant", id))
}

async fn one(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Assistant>> {
    Ok(Json(known(&app, &id).await?))
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum IfExists {
    #[default]
    Raise,
    DoNothing,
}

#[derive(Deserialize)]
struct Create {
    assistant_id: Option<String>,
    graph_id: String,
    config: Option<Map<String, Value>>,
    context: Option<Map<String, Value>>,
    metadata: Option<Map<String, Value>>,
    name: Option<String>,
    description: Option<String>,
    #[serde(default)]
    if_exists: IfExists,
}

fn exists(id: &str) -> ApiError {
    ApiError::conflict(format!("Assistant with ID {id} already exists"))
}

async fn create(State(app): State<Arc<App>>, Body(body): Body<Create>) -> Result<Json<Assistant>> {
    app.known_agent(&body.graph_id)?;
    let id = body.assistant_id.unwrap_or_else(ids::fresh);
    let id = ids::check("assistant ID", &id)?;
    if let Some(known) = find(&app, &id).await? {
        return match body.if_exists {
            IfExists::DoNothing => Ok(Json(known)),
            IfExists::Raise => Err(exists(&id)),
        };
    }
    let (mut config, mut context) = (body.config, body.context);
    mirror_context(&mut config, &mut context)?;
    let now = ids::now();
    let made = Assistant {
        assistant_id: id,
        graph_id: body.graph_id,
        config: config.unwrap_or_default(),
        context: context.unwrap_or_default(),
        metadata: body.metadata.unwrap_or_default(),
        name: body.name.unwrap_or_else(|| "Untitled".to_owned()),
        description: body.description,
        version: 1,
        created_at: now.clone(),
        updated_at: now,
        owner: caller_id(),
    };
    if !made.save_new(&app).await? {
        // The id belongs to another owner, or was created concurrently.
        return match find(&app, &made.assistant_id).await? {
            Some(known) if matches!(body.if_exists, IfExists::DoNothing) => Ok(Json(known)),
            _ => Err(exists(&made.assistant_id)),
        };
    }
    Ok(Json(made))
}

#[derive(Clone, Deserialize)]
struct Patch {
    graph_id: Option<String>,
    config: Option<Map<String, Value>>,
    context: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    metadata: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    description: Option<String>,
}

fn changeable(assistant: &Assistant) -> Result<()> {
    if assistant.is_system() {
        let name = &assistant.graph_id;
        return Err(ApiError::conflict(format!(
            "the default assistant of agent `{name}` cannot be changed; create one of your own"
        )));
    }
    Ok(())
}

async fn update(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(body): Body<Patch>,
) -> Result<Json<Assistant>> {
    // Concurrent updates retry, so that each applies to the result of the one before.
    loop {
        let (mut changed, version) = match find_version(&app, &id).await? {
            Some(found) => found,
            None => (known(&app, &id).await?, None),
        };
        changeable(&changed)?;
        change(&app, &mut changed, body.clone())?;
        let newest = changed.versions(&app).await?.first().map_or(0, |newest| newest.version);
        changed.version = newest.max(changed.version) + 1;
        changed.updated_at = ids::now();
        if changed.save(&app, version).await? {
            return Ok(Json(changed));
        }
    }
}

/// Applies the changes that a client requests.
fn change(app: &App, known: &mut Assistant, body: Patch) -> Result<()> {
    if let Some(graph) = body.graph_id {
        app.known_agent(&graph)?;
        known.graph_id = graph;
    }
    let (mut config, mut context) = (body.config, body.context);
    mirror_context(&mut config, &mut context)?;
    known.config = config.unwrap_or_else(|| std::mem::take(&mut known.config));
    known.context = context.unwrap_or_else(|| std::mem::take(&mut known.context));
    known.metadata.extend(body.metadata.unwrap_or_default());
    known.name = body.name.unwrap_or_else(|| std::mem::take(&mut known.name));
    known.description = body.description.or_else(|| known.description.take());
    Ok(())
}

#[derive(Deserialize)]
struct Versions {
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    limit: Limit,
    #[serde(default)]
    offset: usize,
}

async fn versions(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(body): Body<Versions>,
) -> Result<Json<Value>> {
    let wanted = body.metadata.unwrap_or_default();
    let mut found = known(&app, &id).await?.versions(&app).await?;
    found.retain(|version| contains(&version.metadata, &wanted));
    let page = found.into_iter().skip(body.offset).take(body.limit.get());
    Ok(Json(page.map(|version| json!(version)).collect()))
}

#[derive(Deserialize)]
struct Latest {
    version: u32,
}

async fn latest(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(body): Body<Latest>,
) -> Result<Json<Assistant>> {
    let known = known(&app, &id).await?;
    let wanted = known.versions(&app).await?.into_iter().find(|version| version.version == body.version);
    let wanted = wanted.ok_or_else(|| ApiError::not_found("Version", &body.version.to_string()))?;
    if !known.is_system() {
        wanted.set_latest(&app).await?;
    }
    Ok(Json(wanted))
}

#[derive(Deserialize)]
struct Delete {
    #[serde(default)]
    delete_threads: bool,
}

async fn delete(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Params(query): Params<Delete>,
) -> Result<StatusCode> {
    let known = known(&app, &id).await?;
    changeable(&known)?;
    if query.delete_threads {
        let theirs = app.journal.threads().list(&ThreadQuery::default().metadata("assistant_id", id)).await?;
        for info in theirs.into_iter().filter(owns_thread) {
            threads::delete(&app, &info.id).await?;
        }
    }
    known.delete(&app).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct Drawn {
    /// The depth to which subgraphs are drawn. There are no subgraphs.
    xray: Option<String>,
}

async fn graph(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Params(query): Params<Drawn>,
) -> Result<Json<Value>> {
    let is_depth = |xray: &String| matches!(xray.as_str(), "true" | "false") || xray.parse().is_ok_and(|n: u32| n > 0);
    if query.xray.is_some_and(|xray| !is_depth(&xray)) {
        return Err(ApiError::invalid("`xray` must be true, false, or the number of levels to draw"));
    }
    let known = known(&app, &id).await?;
    let served = app.known_agent(&known.graph_id)?;
    Ok(Json(drawing::graph(served.agent.definition())))
}

async fn schemas(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Value>> {
    let known = known(&app, &id).await?;
    let served = app.known_agent(&known.graph_id)?;
    Ok(Json(drawing::schemas(&known.graph_id, served.agent.definition())))
}

async fn subgraphs(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Value>> {
    known(&app, &id).await?;
    Ok(Json(json!({})))
}

async fn subgraphs_below(app: State<Arc<App>>, Path((id, _)): Path<(String, String)>) -> Result<Json<Value>> {
    subgraphs(app, Path(id)).await
}
