//! Routes for crons.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::record::{Cron, MAX_CRONS, find, find_versions, read_body, visible};
use crate::app::App;
use crate::assistants;
use crate::auth::{caller, caller_id};
use crate::body::Body;
use crate::deserialize::present;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::reservation::{Name, with_reservation};
use crate::runs::check_input;
use crate::threads::{Limit, SortOrder, contains, page_of};

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/runs/crons", post(create))
        .route("/threads/{thread}/runs/crons", post(create))
        .route("/runs/crons/search", post(search))
        .route("/runs/crons/count", post(count))
        .route("/runs/crons/{cron}", get(one).patch(update).delete(delete))
}

/// The fields of a body that belong to the cron. The others belong to its runs.
const CRON_FIELDS: [&str; 6] = ["schedule", "timezone", "end_time", "enabled", "on_run_completed", "cron_id"];

#[derive(Deserialize)]
struct Create {
    schedule: String,
    assistant_id: String,
    timezone: Option<String>,
    #[serde(default, deserialize_with = "end_time")]
    end_time: Option<Timestamp>,
    enabled: Option<bool>,
    on_run_completed: Option<String>,
    metadata: Option<Map<String, Value>>,
}

/// Parses a time. One without a zone is in UTC.
fn end_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let local = || text.parse::<jiff::civil::DateTime>()?.to_zoned(jiff::tz::TimeZone::UTC);
    let read = text.parse().or_else(|_| local().map(|zoned| zoned.timestamp()));
    read.map(Some).map_err(serde::de::Error::custom)
}

async fn create(
    State(app): State<Arc<App>>,
    thread: Option<Path<String>>,
    Body(mut payload): Body<Map<String, Value>>,
) -> Result<Json<Cron>> {
    let thread = thread.map(|Path(thread)| thread);
    let info = match &thread {
        Some(thread) => Some(app.thread(thread).await?),
        None => None,
    };
    check_input(&payload).map_err(ApiError::invalid)?;
    let create: Create = read_body(&payload)?;
    payload.retain(|key, _| !CRON_FIELDS.contains(&key.as_str()));
    let assistant = assistants::known(&app, &create.assistant_id).await?;
    if let Some(info) = &info {
        app.known_agent(&assistant.graph_id)?.check_thread(info)?;
    }
    let now = ids::now();
    let mut cron = Cron {
        cron_id: ids::fresh(),
        assistant_id: assistant.assistant_id.clone(),
        on_run_completed: create.on_run_completed.or_else(|| thread.is_none().then(|| "delete".to_owned())),
        thread_id: thread,
        schedule: create.schedule,
        timezone: create.timezone,
        end_time: create.end_time,
        enabled: create.enabled.unwrap_or(true),
        metadata: create.metadata.unwrap_or_default(),
        payload,
        next_run_date: None,
        user_id: caller_id(),
        created_at: now.clone(),
        updated_at: now,
        last_error: None,
    };
    // An invalid run is rejected now, not when it is due.
    cron.run()?.check(&app, &assistant.graph_id, None).await?;
    cron.check_size()?;
    cron.plan(Timestamp::now())?;
    match caller() {
        Some(caller) => with_reservation(&app, Name::Caller(caller.id()), store_new(&app, &cron)).await?,
        None => store_new(&app, &cron).await?,
    }
    Ok(Json(cron))
}

/// Stores a new cron, unless its owner has too many.
async fn store_new(app: &App, cron: &Cron) -> Result<()> {
    if let Some(owner) = &cron.user_id {
        let own = visible(app).await?.into_iter().filter(|cron| cron.user_id.as_ref() == Some(owner)).count();
        if own >= MAX_CRONS {
            return Err(ApiError::conflict(format!("you have {MAX_CRONS} crons, and no more are allowed; delete one")));
        }
    }
    // A cron must not be due before its payload is there.
    cron.save_payload(app, None).await?;
    cron.save(app, None).await?;
    Ok(())
}

async fn one(State(app): State<Arc<App>>, Path(cron): Path<String>) -> Result<Json<Cron>> {
    Ok(Json(find(&app, &cron).await?))
}

/// Deserialises an end time in which null is meaningful.
#[allow(clippy::option_option, reason = "absent, null and given are three things")]
fn given_end_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Timestamp>>, D::Error> {
    end_time(deserializer).map(Some)
}

#[derive(Deserialize)]
#[allow(clippy::option_option, reason = "absent, null and given are three things")]
struct Patch {
    schedule: Option<String>,
    #[serde(default, deserialize_with = "present")]
    timezone: Option<Option<String>>,
    #[serde(default, deserialize_with = "given_end_time")]
    end_time: Option<Option<Timestamp>>,
    enabled: Option<bool>,
    on_run_completed: Option<String>,
    metadata: Option<Map<String, Value>>,
    assistant_id: Option<String>,
}

async fn update(
    State(app): State<Arc<App>>,
    Path(cron): Path<String>,
    Body(body): Body<Map<String, Value>>,
) -> Result<Json<Cron>> {
    if body.is_empty() {
        find(&app, &cron).await?;
        return Err(ApiError::bad_request("there is nothing to change"));
    }
    // Concurrent updates retry, so that each applies to the result of the one before.
    loop {
        let (mut changed, known) = find_versions(&app, &cron).await?;
        change(&mut changed, body.clone())?;
        let assistant = assistants::known(&app, &changed.assistant_id).await?;
        changed.assistant_id.clone_from(&assistant.assistant_id);
        changed.run()?.check(&app, &assistant.graph_id, None).await?;
        changed.updated_at = ids::now();
        changed.check_size()?;
        changed.plan(Timestamp::now())?;
        // Changes can be applied twice, so the payload may have them already when the cron was changed meanwhile.
        if changed.save_payload(&app, known.payload).await? && changed.save(&app, Some(known.cron)).await? {
            return Ok(Json(changed));
        }
    }
}

/// Applies the changes that a client requests.
fn change(cron: &mut Cron, body: Map<String, Value>) -> Result<()> {
    check_input(&body).map_err(ApiError::invalid)?;
    let patch: Patch = read_body(&body)?;
    cron.schedule = patch.schedule.unwrap_or_else(|| std::mem::take(&mut cron.schedule));
    cron.timezone = patch.timezone.unwrap_or_else(|| cron.timezone.take());
    cron.end_time = patch.end_time.unwrap_or(cron.end_time);
    cron.enabled = patch.enabled.unwrap_or(cron.enabled);
    cron.on_run_completed = patch.on_run_completed.or_else(|| cron.on_run_completed.take());
    cron.assistant_id = patch.assistant_id.unwrap_or_else(|| std::mem::take(&mut cron.assistant_id));
    let more = body.into_iter().filter(|(key, _)| !CRON_FIELDS.contains(&key.as_str()) && key != "metadata");
    cron.payload.extend(more);
    if let Some(metadata) = patch.metadata {
        cron.metadata.extend(metadata);
        cron.payload.insert("metadata".to_owned(), Value::Object(cron.metadata.clone()));
    }
    Ok(())
}

async fn delete(State(app): State<Arc<App>>, Path(cron): Path<String>) -> Result<StatusCode> {
    find(&app, &cron).await?.delete(&app).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SortBy {
    CronId,
    AssistantId,
    ThreadId,
    NextRunDate,
    EndTime,
    CreatedAt,
    UpdatedAt,
}

/// The fields that a client may select.
const FIELDS: &str = "cron_id assistant_id thread_id schedule timezone end_time enabled metadata payload \
    on_run_completed next_run_date user_id created_at updated_at last_error";

#[derive(Deserialize)]
struct Search {
    assistant_id: Option<String>,
    thread_id: Option<String>,
    enabled: Option<bool>,
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    limit: Limit,
    #[serde(default)]
    offset: usize,
    sort_by: Option<SortBy>,
    sort_order: Option<SortOrder>,
    select: Option<Vec<String>>,
}

async fn found(app: &App, search: &Search) -> Result<Vec<Cron>> {
    let thread = search.thread_id.as_deref().map(|id| ids::check("thread ID", id)).transpose()?;
    let assistant = match &search.assistant_id {
        Some(id) => assistants::find(app, id).await?.map(|known| known.assistant_id).or_else(|| Some(id.clone())),
        None => None,
    };
    let wanted = search.metadata.clone().unwrap_or_default();
    let mut found = visible(app).await?;
    found.retain(|cron| {
        assistant.as_ref().is_none_or(|assistant| *assistant == cron.assistant_id)
            && thread.as_ref().is_none_or(|thread| cron.thread_id.as_ref() == Some(thread))
            && search.enabled.is_none_or(|enabled| enabled == cron.enabled)
            && contains(&cron.metadata, &wanted)
    });
    match search.sort_by {
        None => return Ok(found),
        Some(SortBy::CronId) => found.sort_by(|a, b| a.cron_id.cmp(&b.cron_id)),
        Some(SortBy::AssistantId) => found.sort_by(|a, b| a.assistant_id.cmp(&b.assistant_id)),
        Some(SortBy::ThreadId) => found.sort_by(|a, b| a.thread_id.cmp(&b.thread_id)),
        Some(SortBy::NextRunDate) => found.sort_by_key(|cron| cron.next_run_date),
        Some(SortBy::EndTime) => found.sort_by_key(|cron| cron.end_time),
        Some(SortBy::CreatedAt) => found.sort_by(|a, b| a.created_at.cmp(&b.created_at)),
        Some(SortBy::UpdatedAt) => found.sort_by(|a, b| a.updated_at.cmp(&b.updated_at)),
    }
    if search.sort_order.unwrap_or_default() == SortOrder::Desc {
        found.reverse();
    }
    Ok(found)
}

async fn search(State(app): State<Arc<App>>, Body(body): Body<Search>) -> Result<(HeaderMap, Json<Value>)> {
    let mut found = found(&app, &body).await?;
    for cron in found.iter_mut().skip(body.offset).take(body.limit.get()) {
        cron.read_payload(&app).await?;
    }
    page_of(found, (body.offset, body.limit), body.select.as_deref(), FIELDS)
}

async fn count(State(app): State<Arc<App>>, Body(body): Body<Search>) -> Result<Json<usize>> {
    Ok(Json(found(&app, &body).await?.len()))
}
