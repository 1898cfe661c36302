//! The routes of runs.

use std::sync::Arc;

use axum::body::Body as HttpBody;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::create::{IfNotExists, NewRun, OnDisconnect, RunCreate, StreamMode, mirror};
use super::host::{accept, admit};
use super::live::{CancelAction, LiveRun};
use super::others;
use super::record::{RunRecord, Status, find, namespace, of_thread};
use super::waiting::{values_at_end, values_of};
use crate::app::App;
use crate::assistants;
use crate::auth::{caller, owns, owns_thread};
use crate::body::{Body, Pairs, Params};
use crate::error::{ApiError, Result};
use crate::ids;
use crate::stream::{EventId, Feed, From, Leaving, Reader, ThreadStreamMode, Writer, all_runs, past};
use crate::threads::{Fields, Held, make};

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/threads/{thread}/runs", post(create).get(list))
        .route("/threads/{thread}/runs/wait", post(wait))
        .route("/threads/{thread}/runs/stream", post(stream))
        .route("/threads/{thread}/runs/{run}", get(one).delete(delete))
        .route("/threads/{thread}/runs/{run}/join", get(join))
        .route("/threads/{thread}/runs/{run}/stream", get(join_stream))
        .route("/threads/{thread}/runs/{run}/cancel", post(cancel))
        .route("/runs", post(create_stateless))
        .route("/runs/wait", post(wait_stateless))
        .route("/runs/stream", post(stream_stateless))
        .route("/runs/batch", post(batch))
        .route("/runs/cancel", post(cancel_several))
        .route("/threads/{thread}/stream", get(thread_stream))
}

/// Accepts what a client asks for; without a thread, on one that is made for it.
pub(crate) async fn start(app: &Arc<App>, thread: Option<&str>, body: RunCreate) -> Result<Arc<LiveRun>> {
    let run = ids::fresh();
    let place = thread.map_or_else(ids::fresh, str::to_owned);
    Box::pin(accept_on(app, thread, place, run, body)).await
}

/// Accepts a run under an id that names it alone: one that is there already is not made again.
pub(crate) async fn start_once(app: &Arc<App>, thread: Option<&str>, body: RunCreate, run: String) -> Result<()> {
    let place = thread.map_or_else(|| run.clone(), str::to_owned);
    if app.store.get(&namespace(&place), &run).await?.is_none() {
        Box::pin(accept_on(app, thread, place, run, body)).await?;
    }
    Ok(())
}

async fn accept_on(
    app: &Arc<App>,
    thread: Option<&str>,
    id: String,
    run_id: String,
    body: RunCreate,
) -> Result<Arc<LiveRun>> {
    if thread.is_some() {
        ids::check("thread ID", &id)?;
    }
    let mut body = body;
    if let Ok(id) = ids::check("assistant ID", &body.assistant_id) {
        body.assistant_id = id;
    }
    let missing = || match ids::check("assistant ID", &body.assistant_id) {
        Ok(_) => ApiError::not_found("Assistant", &body.assistant_id),
        Err(_) => ApiError::invalid(format!(
            "Invalid assistant: '{}'. Must be a UUID or the name of an agent",
            body.assistant_id
        )),
    };
    let assistant = assistants::find(app, &body.assistant_id).await?.ok_or_else(missing)?;
    let existing = match thread {
        Some(thread) => app.journal.threads().get(thread).await?,
        None => None,
    };
    if existing.as_ref().is_some_and(|info| !owns_thread(info)) {
        return Err(ApiError::not_found("Thread", &id));
    }
    let creates = thread.is_none() || body.if_not_exists == Some(IfNotExists::Create);
    if existing.is_none() && !creates {
        return Err(ApiError::not_found("Thread", &id));
    }
    body.check(app, &assistant.graph_id, existing.as_ref().map(|info| info.id.as_str())).await?;
    admit(app, &id, existing.is_some(), body.multitask_strategy.unwrap_or_default()).await?;
    let known = json!({"graph_id": assistant.graph_id, "assistant_id": assistant.assistant_id});
    let known = known.as_object().cloned().unwrap_or_default();
    let is_new = existing.is_none();
    match existing {
        None => make(app, &id, known, Held::default()).await?,
        Some(_) => app.set_metadata(&id, known).await?,
    }
    // What a run says wins over what its assistant does.
    mirror(&mut body.config, &mut body.context)?;
    body.config = over(body.config, &assistant.config);
    body.context = over(body.context, &assistant.context);
    let mut metadata = assistant.metadata.clone();
    metadata.extend(body.metadata.clone().unwrap_or_default());
    let now = ids::now();
    let record = RunRecord {
        run_id,
        thread_id: id,
        assistant_id: assistant.assistant_id,
        created_at: now.clone(),
        updated_at: now,
        status: Status::Pending,
        metadata,
        started_at: None,
        from: None,
        until: None,
        stop: None,
        owner: caller().map(|caller| caller.id().to_owned()),
        limits: caller().map(|caller| caller.own_limits().clone()).unwrap_or_default(),
        multitask_strategy: body.multitask_strategy.unwrap_or_default(),
        kwargs: body,
        graph_id: assistant.graph_id,
        stateless: thread.is_none(),
        error: None,
    };
    let thread = record.thread_id.clone();
    let accepted = accept(app, record).await;
    if accepted.is_err() && is_new {
        // Where the storage is away it stays, without a run.
        let _ = app.journal.threads().delete(&thread).await;
    }
    accepted
}

/// Fields with those of `below` that they do not have, also within `configurable`.
fn over(given: Option<Map<String, Value>>, below: &Map<String, Value>) -> Option<Map<String, Value>> {
    if below.is_empty() {
        return given;
    }
    let mut all = below.clone();
    for (key, value) in given.unwrap_or_default() {
        match (all.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(value)) if key == "configurable" => known.extend(value),
            (_, value) => {
                all.insert(key, value);
            }
        }
    }
    Some(all)
}

fn place(run: &LiveRun) -> String {
    format!("/threads/{}/runs/{}", run.thread, run.id)
}

fn headers(run: &LiveRun, location: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let place = place(run);
    for (name, value) in [(header::CONTENT_LOCATION, place.clone()), (header::LOCATION, format!("{place}/{location}"))]
    {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    headers
}

async fn create(
    State(app): State<Arc<App>>,
    Path(thread): Path<String>,
    Body(NewRun(body)): Body<NewRun>,
) -> Result<Response> {
    created(&app, Some(&thread), body).await
}

async fn create_stateless(State(app): State<Arc<App>>, Body(NewRun(body)): Body<NewRun>) -> Result<Response> {
    created(&app, None, body).await
}

async fn created(app: &Arc<App>, thread: Option<&str>, body: RunCreate) -> Result<Response> {
    let run = start(app, thread, body).await?;
    let mut shown = run.record();
    shown.status = Status::Pending;
    let mut headers = headers(&run, "");
    headers.remove(header::LOCATION);
    if thread.is_none()
        && let Ok(place) = HeaderValue::try_from(format!("/runs/{}", run.id))
    {
        headers.insert(header::CONTENT_LOCATION, place);
    }
    Ok((headers, Json(shown.shown())).into_response())
}

async fn batch(State(app): State<Arc<App>>, Body(body): Body<Vec<NewRun>>) -> Result<Json<Value>> {
    let mut begun: Vec<Arc<LiveRun>> = Vec::new();
    if body.is_empty() {
        return Err(ApiError::invalid("a batch has a run at least"));
    }
    for NewRun(one) in body {
        match start(&app, None, one).await {
            Ok(run) => begun.push(run),
            Err(error) => {
                // All of them or none.
                begun.iter().for_each(|run| run.end(CancelAction::Rollback));
                return Err(error);
            }
        }
    }
    Ok(Json(begun.iter().map(|run| run.record().shown()).collect()))
}

async fn wait(
    State(app): State<Arc<App>>,
    Path(thread): Path<String>,
    Body(NewRun(body)): Body<NewRun>,
) -> Result<Response> {
    waited(&app, Some(&thread), body).await
}

async fn wait_stateless(State(app): State<Arc<App>>, Body(NewRun(body)): Body<NewRun>) -> Result<Response> {
    waited(&app, None, body).await
}

async fn waited(app: &Arc<App>, thread: Option<&str>, body: RunCreate) -> Result<Response> {
    let leaving = body.on_disconnect.unwrap_or_default();
    let run = start(app, thread, body).await?;
    Ok(answer_at_end(app, run, leaving))
}

fn answer_at_end(app: &Arc<App>, run: Arc<LiveRun>, leaving: OnDisconnect) -> Response {
    let headers = headers(&run, "join");
    let json = [(header::CONTENT_TYPE, "application/json")];
    (headers, json, HttpBody::from_stream(values_at_end(app.clone(), run, leaving))).into_response()
}

async fn stream(
    State(app): State<Arc<App>>,
    Path(thread): Path<String>,
    Body(NewRun(body)): Body<NewRun>,
) -> Result<Response> {
    streamed(&app, Some(&thread), body).await
}

async fn stream_stateless(State(app): State<Arc<App>>, Body(NewRun(body)): Body<NewRun>) -> Result<Response> {
    streamed(&app, None, body).await
}

async fn streamed(app: &Arc<App>, thread: Option<&str>, body: RunCreate) -> Result<Response> {
    let with_ids = body.stream_resumable;
    let leaving = body.on_disconnect.unwrap_or_default();
    let run = start(app, thread, body).await?;
    Ok(events(&run, From::Start, None, with_ids, leaving))
}

const STREAM_HEADERS: [(&str, &str); 3] =
    [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-store"), ("x-accel-buffering", "no")];

fn events(
    run: &Arc<LiveRun>,
    from: From,
    modes: Option<Vec<StreamMode>>,
    with_ids: bool,
    leaving: OnDisconnect,
) -> Response {
    let mut headers = headers(run, "stream");
    for (name, value) in STREAM_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let leaving = (leaving == OnDisconnect::Cancel).then(|| Leaving::new(run.clone()));
    let create = run.record().kwargs;
    let modes = modes.unwrap_or_else(|| create.modes());
    let writer = Writer::new(run.identity.clone(), modes, create.stream_subgraphs);
    let reader = Reader::new(run.clone(), from, writer, with_ids, leaving);
    (headers, HttpBody::from_stream(reader.body())).into_response()
}

/// What a run has that a client may choose from.
const FIELDS: [&str; 10] = [
    "run_id",
    "thread_id",
    "assistant_id",
    "created_at",
    "updated_at",
    "status",
    "metadata",
    "kwargs",
    "multitask_strategy",
    "error",
];

#[derive(Deserialize)]
struct List {
    limit: Option<usize>,
    offset: Option<usize>,
    status: Option<Status>,
}

async fn list(
    State(app): State<Arc<App>>,
    Path(thread): Path<String>,
    query: Pairs,
    Params(page): Params<List>,
) -> Result<Json<Value>> {
    let select = query.all::<String>("select")?;
    let fields = Fields::new(Some(&select), &FIELDS)?;
    app.thread(&thread).await?;
    let found =
        of_thread(&app, &thread).await?.into_iter().filter(|run| page.status.is_none_or(|status| status == run.status));
    let found = found.skip(page.offset.unwrap_or(0)).take(page.limit.unwrap_or(10));
    Ok(Json(found.map(|run| fields.of(run.shown())).collect()))
}

async fn known(app: &App, thread: &str, run: &str) -> Result<RunRecord> {
    app.thread(thread).await?;
    find(app, thread, run).await
}

async fn one(State(app): State<Arc<App>>, Path((thread, run)): Path<(String, String)>) -> Result<Json<Value>> {
    let kept = known(&app, &thread, &run).await?;
    // What this process knows of its own may not have been kept yet.
    let own = app.runs.get(&run).filter(|live| !live.recovered).map(|live| live.record());
    Ok(Json(own.unwrap_or(kept).shown()))
}

async fn delete(State(app): State<Arc<App>>, Path((thread, run)): Path<(String, String)>) -> Result<StatusCode> {
    let record = known(&app, &thread, &run).await?;
    if record.status.is_open() {
        let Some(live) = others::live(&app, &record).await? else {
            return Err(ApiError::conflict("another process works on the run; cancel it there first"));
        };
        others::end(&app, &live, CancelAction::Rollback).await?;
        live.ended().await;
    }
    record.delete(&app).await?;
    app.runs.forget(&run);
    Ok(StatusCode::NO_CONTENT)
}

async fn join(
    State(app): State<Arc<App>>,
    Path((thread, run)): Path<(String, String)>,
    query: Pairs,
) -> Result<Response> {
    let record = known(&app, &thread, &run).await?;
    Ok(match others::live(&app, &record).await? {
        Some(live) => answer_at_end(&app, live, leaving(&query)),
        None => Json(values_of(&app, &record).await?).into_response(),
    })
}

/// What becomes of a run whose client leaves while it waits for it.
fn leaving(query: &Pairs) -> OnDisconnect {
    if is_true(query.one("cancel_on_disconnect")) { OnDisconnect::Cancel } else { OnDisconnect::Continue }
}

async fn join_stream(
    State(app): State<Arc<App>>,
    Path((thread, run)): Path<(String, String)>,
    query: Pairs,
    headers: HeaderMap,
) -> Result<Response> {
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
    let modes = Some(query.all::<StreamMode>("stream_mode")?).filter(|modes| !modes.is_empty());
    let nothing = [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-store")];
    let record = known(&app, &thread, &run).await?;
    let live = match others::live(&app, &record).await? {
        Some(live) => Some(live),
        None if record.kwargs.stream_resumable && last.is_some() => past(&app, &record).await?,
        None => None,
    };
    let Some(live) = live else { return Ok((nothing, String::new()).into_response()) };
    let resumable = live.record().kwargs.stream_resumable;
    let from = match last {
        Some("-1" | "0") if resumable => From::Start,
        Some(last) if resumable => EventId::read(last).map_or(From::Now, |(id, part)| From::After(id, part)),
        _ => From::Now,
    };
    Ok(events(&live, from, modes, resumable, leaving(&query)))
}

/// A switch of a query, in the spellings that clients have for it.
fn is_true(switch: Option<&str>) -> bool {
    matches!(switch, Some("1" | "true" | "True"))
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    #[default]
    Interrupt,
    Rollback,
}

#[derive(Deserialize)]
struct Cancel {
    wait: Option<String>,
    action: Option<Action>,
}

async fn cancel(
    State(app): State<Arc<App>>,
    Path((thread, run)): Path<(String, String)>,
    Params(query): Params<Cancel>,
) -> Result<Response> {
    let record = known(&app, &thread, &run).await?;
    let live = others::live(&app, &record).await?.filter(|_| record.status.is_open());
    let live = live.ok_or_else(|| ApiError::not_found("Open run", &run))?;
    others::end(&app, &live, query.action.unwrap_or_default().into()).await?;
    if is_true(query.wait.as_deref()) {
        live.ended().await;
        return Ok(Json(Value::Object(Map::new())).into_response());
    }
    Ok(StatusCode::ACCEPTED.into_response())
}

/// Which runs are meant by their status.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum OpenStatus {
    Pending,
    Running,
    All,
}

#[derive(Deserialize)]
struct CancelSeveral {
    status: Option<OpenStatus>,
    thread_id: Option<String>,
    run_ids: Option<Vec<String>>,
}

async fn cancel_several(
    State(app): State<Arc<App>>,
    Params(query): Params<Cancel>,
    Body(body): Body<CancelSeveral>,
) -> Result<StatusCode> {
    let how = query.action.unwrap_or_default().into();
    let mut found = match (body.status, &body.thread_id, &body.run_ids) {
        (Some(_), None, None) => {
            others::take_up_all(&app).await?;
            app.runs.all_open()
        }
        (None, Some(thread), Some(_)) => {
            app.thread(thread).await?;
            others::take_up(&app, thread).await?;
            app.runs.open(thread)
        }
        _ => return Err(ApiError::invalid("either `status`, or `thread_id` and `run_ids`")),
    };
    found.retain(|run| {
        let record = run.record();
        let meant = match body.status {
            None | Some(OpenStatus::All) => true,
            Some(OpenStatus::Pending) => record.status == Status::Pending,
            Some(OpenStatus::Running) => record.status == Status::Running,
        };
        meant && owns(record.owner.as_deref()) && body.run_ids.as_ref().is_none_or(|ids| ids.contains(&run.id))
    });
    if found.is_empty() {
        return Err(ApiError::new(StatusCode::NOT_FOUND, "No open run is meant"));
    }
    for run in found {
        others::end(&app, &run, how).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

impl std::convert::From<Action> for CancelAction {
    fn from(action: Action) -> Self {
        match action {
            Action::Interrupt => Self::Interrupt,
            Action::Rollback => Self::Rollback,
        }
    }
}

async fn thread_stream(
    State(app): State<Arc<App>>,
    Path(thread): Path<String>,
    query: Pairs,
    headers: HeaderMap,
) -> Result<Response> {
    app.thread(&thread).await?;
    // The clients say the one, the real server's documents the other.
    let mut modes: Vec<ThreadStreamMode> = query.all("stream_mode")?;
    modes.extend(query.all::<ThreadStreamMode>("stream_modes")?);
    if modes.is_empty() {
        modes.push(ThreadStreamMode::RunModes);
    }
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok()).and_then(EventId::read);
    let feed = Feed::open(&app, &thread, last.map(|(id, _)| id.position)).await?;
    let mut answer = HeaderMap::new();
    for (name, value) in STREAM_HEADERS {
        answer.insert(name, HeaderValue::from_static(value));
    }
    Ok((answer, HttpBody::from_stream(all_runs(feed, app.state_updates.subscribe(), modes, last))).into_response())
}
