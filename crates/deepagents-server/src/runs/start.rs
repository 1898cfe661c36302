//! A run is accepted as a client asks for it: with what its assistant says, on its thread or on one that is made for it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::create::{IfNotExists, RunCreate, mirror};
use super::host::{accept, admit};
use super::live::LiveRun;
use super::record::{RunRecord, Status, namespace};
use crate::app::App;
use crate::assistants::{self, Assistant};
use crate::auth::{caller, owns_thread};
use crate::error::{ApiError, Result};
use crate::ids;
use crate::threads::{Held, make};

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
    let assistant = assistant_of(app, &mut body).await?;
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

/// The assistant that a client names, whose id is written as ours are.
async fn assistant_of(app: &App, body: &mut RunCreate) -> Result<Assistant> {
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
    assistants::find(app, &body.assistant_id).await?.ok_or_else(missing)
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
