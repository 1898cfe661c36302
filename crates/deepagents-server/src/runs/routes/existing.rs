//! Routes for existing runs: show, join, stream and delete.

use std::sync::Arc;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;

use super::answer::{answer_at_end, events};
use crate::app::App;
use crate::body::{Pairs, Params, is_true};
use crate::error::{ApiError, Result};
use crate::runs::live::CancelAction;
use crate::runs::others;
use crate::runs::record::{RunRecord, Status, find, of_thread};
use crate::runs::run_options::{OnDisconnect, StreamMode};
use crate::runs::waiting::{ended, values_of};
use crate::stream::{EventId, Feed, From, STREAM_HEADERS, ThreadStreamMode, all_runs, past};
use crate::threads::Fields;

/// The fields that a client may select.
const FIELDS: &str =
    "run_id thread_id assistant_id created_at updated_at status metadata kwargs multitask_strategy error";

#[derive(Deserialize)]
pub(super) struct List {
    limit: Option<usize>,
    offset: Option<usize>,
    status: Option<Status>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Path(thread): Path<String>,
    query: Pairs,
    Params(page): Params<List>,
) -> Result<Json<Value>> {
    let select = query.all::<String>("select")?;
    let fields = Fields::new(Some(&select), FIELDS)?;
    app.thread(&thread).await?;
    let found =
        of_thread(&app, &thread).await?.into_iter().filter(|run| page.status.is_none_or(|status| status == run.status));
    let found = found.skip(page.offset.unwrap_or(0)).take(page.limit.unwrap_or(10));
    Ok(Json(found.map(|run| fields.of(run.shown())).collect()))
}

pub(super) async fn known(app: &App, thread: &str, run: &str) -> Result<RunRecord> {
    app.thread(thread).await?;
    find(app, thread, run).await
}

pub(super) async fn one(
    State(app): State<Arc<App>>,
    Path((thread, run)): Path<(String, String)>,
) -> Result<Json<Value>> {
    let kept = known(&app, &thread, &run).await?;
    // This process's record of its own run may not be stored yet. Another process may have ended the run, though.
    let own = app.runs.get(&run).filter(|live| !live.recovered && kept.status.is_open()).map(|live| live.record());
    Ok(Json(own.unwrap_or(kept).shown()))
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path((thread, run)): Path<(String, String)>,
) -> Result<StatusCode> {
    let record = known(&app, &thread, &run).await?;
    if record.is_unfinished() {
        let Some(live) = others::live(&app, &record).await? else {
            return Err(ApiError::conflict("another process is working on the run; cancel it there first"));
        };
        others::end(&app, &live, CancelAction::Rollback).await?;
        ended(&app, &live).await?;
    }
    record.delete(&app).await?;
    app.runs.forget(&run);
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn join(
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

/// Returns what happens to a run whose waiting client disconnects.
fn leaving(query: &Pairs) -> OnDisconnect {
    if is_true(query.one("cancel_on_disconnect")) { OnDisconnect::Cancel } else { OnDisconnect::Continue }
}

pub(super) async fn join_stream(
    State(app): State<Arc<App>>,
    Path((thread, run)): Path<(String, String)>,
    query: Pairs,
    headers: HeaderMap,
) -> Result<Response> {
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
    let modes = Some(query.all::<StreamMode>("stream_mode")?).filter(|modes| !modes.is_empty());
    let record = match known(&app, &thread, &run).await {
        // A client that reconnects to a run that is gone has read all there is. Its thread must be there.
        Err(error) if error.is_not_found() => {
            app.thread(&thread).await?;
            return Ok((STREAM_HEADERS, String::new()).into_response());
        }
        record => record?,
    };
    let live = match others::live(&app, &record).await? {
        Some(live) => Some(live),
        None if record.kwargs.stream_resumable && last.is_some() => past(&app, &record).await?,
        None => None,
    };
    let Some(live) = live else { return Ok((STREAM_HEADERS, String::new()).into_response()) };
    let resumable = live.record().kwargs.stream_resumable;
    let from = match last {
        Some("-1" | "0") if resumable => From::Start,
        Some(last) if resumable => EventId::read(last).map_or(From::Now, |(id, part)| From::After(id, part)),
        _ => From::Now,
    };
    Ok(events(&live, from, modes, resumable, leaving(&query)))
}

pub(super) async fn thread_stream(
    State(app): State<Arc<App>>,
    Path(thread): Path<String>,
    query: Pairs,
    headers: HeaderMap,
) -> Result<Response> {
    app.thread(&thread).await?;
    // Official clients send `stream_mode`; the LangGraph server's documentation says `stream_modes`.
    let mut modes: Vec<ThreadStreamMode> = query.all("stream_mode")?;
    modes.extend(query.all::<ThreadStreamMode>("stream_modes")?);
    if modes.is_empty() {
        modes.push(ThreadStreamMode::RunModes);
    }
    let asked = headers.get("last-event-id").and_then(|last| last.to_str().ok());
    let last = asked.and_then(EventId::read);
    let from = match asked {
        Some("-1" | "0") => Some(0),
        _ => last.map(|(id, _)| id.position),
    };
    let feed = Feed::open(&app, &thread, from).await?;
    let events = all_runs(feed, app.state_updates.subscribe(), modes, last);
    Ok((STREAM_HEADERS, HttpBody::from_stream(events)).into_response())
}
