//! Accepting a run request: the run is merged with its assistant and placed on its thread or on a new one.

use std::sync::Arc;

use deepagents_core::journal::ThreadInfo;
use futures_core::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::config::mirror_context;
use super::create::RunCreate;
use super::host::{accept, admit};
use super::live::LiveRun;
use super::record::{RunRecord, Status, records};
use super::run_options::{IfNotExists, Strategy};
use crate::app::App;
use crate::assistants::{self, Assistant};
use crate::auth::{CALLER, caller, caller_id, owns_thread};
use crate::error::{ApiError, Result};
use crate::ids;
use crate::reservation::{Name, with_reservation};
use crate::threads::{ThreadRecord, contains, make};

/// Accepts a request. Without a thread, a new one is created for the run.
pub(crate) async fn start(app: &Arc<App>, thread: Option<&str>, body: RunCreate) -> Result<Arc<LiveRun>> {
    let run = ids::fresh();
    let place = thread.map_or_else(ids::fresh, str::to_owned);
    let (app, thread) = (app.clone(), thread.map(str::to_owned));
    // Spawned, so that a client that disconnects does not leave a half-created run.
    let accepting = async move { Box::pin(accept_on(&app, thread.as_deref(), place, run, body)).await };
    let accepted = tokio::spawn(CALLER.scope(caller(), accepting)).await;
    accepted.map_err(|error| ApiError::bad_request(error.to_string()))?
}

/// Accepts a run under a given id, unless a run with this id exists.
pub(crate) async fn start_once(app: &Arc<App>, thread: Option<&str>, body: RunCreate, run: String) -> Result<()> {
    let place = thread.map_or_else(|| run.clone(), str::to_owned);
    let is_there = async || Ok::<_, ApiError>(records(app, &place).item(&run).await?.is_some());
    if is_there().await? {
        return Ok(());
    }
    match Box::pin(accept_on(app, thread, place.clone(), run.clone(), body)).await {
        // Another process created it concurrently.
        Err(error) if error.is_conflict() && is_there().await? => Ok(()),
        accepted => accepted.map(drop),
    }
}

/// Rejects a run without a thread that could never be accepted.
pub(super) async fn check(app: &App, body: &RunCreate) -> Result<()> {
    let assistant = assistant_of(app, &body.assistant_id).await?;
    body.check(app, &assistant.graph_id, None).await.map(drop)
}

/// Rejects runs of an assistant on a thread, if it exists, that its agent must not work on.
pub(crate) async fn check_thread(app: &App, assistant: &str, thread: &str) -> Result<()> {
    let Some(info) = found(app, thread).await? else { return Ok(()) };
    app.known_agent(&assistant_of(app, assistant).await?.graph_id)?.check_thread(&info)
}

/// A run request with its thread and assistant.
struct RunRequest {
    thread: String,
    /// Whether the thread is created for this run alone.
    stateless: bool,
    run: String,
    assistant: Assistant,
    body: RunCreate,
}

async fn accept_on(
    app: &Arc<App>,
    thread: Option<&str>,
    id: String,
    run: String,
    body: RunCreate,
) -> Result<Arc<LiveRun>> {
    let stateless = thread.is_none();
    let id = if stateless { id } else { ids::check("thread ID", &id)? };
    let assistant = assistant_of(app, &body.assistant_id).await?;
    let existing = if stateless { None } else { found(app, &id).await? };
    let is_new = !stateless && existing.is_none();
    if is_new && body.if_not_exists != Some(IfNotExists::Create) {
        return Err(ApiError::not_found("Thread", &id));
    }
    // These reservations keep the checks valid until the run is stored: that the thread does not exist, that it has no
    // run, and how many runs the caller has.
    let has_thread = is_new || (!stateless && body.multitask_strategy == Some(Strategy::Reject));
    let limited = caller().filter(|caller| caller.own_limits().runs_at_once.is_some());
    let request = RunRequest { thread: id.clone(), stateless, run, assistant, body };
    let mut accepting: BoxFuture<'_, Result<Arc<LiveRun>>> = Box::pin(accept_now(app, existing, request));
    if let Some(caller) = &limited {
        accepting = Box::pin(with_reservation(app, Name::Caller(caller.id()), accepting));
    }
    if has_thread {
        accepting = Box::pin(with_reservation(app, Name::Thread(&id), accepting));
    }
    accepting.await
}

/// Returns the thread with an id, if it exists. A thread of another owner is an error.
async fn found(app: &App, id: &str) -> Result<Option<ThreadInfo>> {
    match app.journal.threads().get(id).await? {
        Some(info) if !owns_thread(&info) => Err(ApiError::not_found("Thread", id)),
        found => Ok(found),
    }
}

async fn accept_now(app: &Arc<App>, existing: Option<ThreadInfo>, request: RunRequest) -> Result<Arc<LiveRun>> {
    let RunRequest { thread: id, stateless, run: run_id, assistant, mut body } = request;
    let existing = match existing {
        None if !stateless => found(app, &id).await?,
        existing => existing,
    };
    if let Some(info) = existing.as_ref().filter(|_| !body.ends()) {
        app.known_agent(&assistant.graph_id)?.check_thread(info)?;
    }
    let earlier = body.check(app, &assistant.graph_id, existing.as_ref().map(|info| info.id.as_str())).await?;
    if earlier.is_none() && body.is_about_state() {
        // Earlier runs may change the thread before this one begins, and it must not undo what they do.
        body.remove_checkpoint();
    }
    admit(app, &id, existing.is_some(), body.multitask_strategy.unwrap_or_default()).await?;
    let known = json!({"graph_id": assistant.graph_id, "assistant_id": assistant.assistant_id});
    let known = known.as_object().cloned().unwrap_or_default();
    // A new thread is known to nobody else, unless several processes create the same run.
    let is_own = stateless && id != run_id;
    match existing {
        None => make(app, &id, known, ThreadRecord::default()).await?,
        Some(info) if contains(&info.metadata, &known) => {}
        Some(_) => app.update_metadata(&id, known).await?,
    }
    // The values of the run take precedence over those of the assistant.
    mirror_context(&mut body.config, &mut body.context)?;
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
        owner: caller_id(),
        limits: caller().map(|caller| caller.own_limits().clone()).unwrap_or_default(),
        multitask_strategy: body.multitask_strategy.unwrap_or_default(),
        kwargs: body,
        graph_id: assistant.graph_id,
        stateless,
        error: None,
    };
    let thread = record.thread_id.clone();
    let accepted = accept(app, record).await;
    if accepted.is_err() && is_own {
        // If the storage is unavailable, the thread stays, without a run.
        let _ = app.journal.threads().delete(&thread).await;
    }
    accepted
}

/// Returns the assistant that a client names.
pub(crate) async fn assistant_of(app: &App, named: &str) -> Result<Assistant> {
    assistants::find(app, named).await?.ok_or_else(|| match ids::check("assistant ID", named) {
        Ok(id) => ApiError::not_found("Assistant", &id),
        Err(_) => ApiError::invalid(format!("Invalid assistant: '{named}'. Must be a UUID or the name of an agent")),
    })
}

/// Fills missing fields from `below`, also within `configurable`.
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
