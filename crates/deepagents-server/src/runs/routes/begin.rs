//! Routes that start runs: in the background, waited for, or streamed.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::answer::{answer_at_end, events, headers};
use crate::app::App;
use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::runs::create::{NewRun, RunCreate};
use crate::runs::live::{CancelAction, LiveRun};
use crate::runs::record::Status;
use crate::runs::start::{check, start};
use crate::stream::From;

pub(super) async fn create(
    State(app): State<Arc<App>>,
    Path(thread): Path<String>,
    Body(NewRun(body)): Body<NewRun>,
) -> Result<Response> {
    created(&app, Some(&thread), body).await
}

pub(super) async fn create_stateless(
    State(app): State<Arc<App>>,
    Body(NewRun(body)): Body<NewRun>,
) -> Result<Response> {
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

pub(super) async fn batch(State(app): State<Arc<App>>, Body(mut body): Body<Vec<NewRun>>) -> Result<Json<Value>> {
    let mut begun: Vec<Arc<LiveRun>> = Vec::new();
    if body.is_empty() {
        return Err(ApiError::invalid("a batch must have at least one run"));
    }
    // All are checked before any calls a model.
    for NewRun(one) in &mut body {
        check(&app, one).await?;
    }
    for NewRun(one) in body {
        match start(&app, None, one).await {
            Ok(run) => begun.push(run),
            Err(error) => {
                // The batch is all or nothing.
                begun.iter().for_each(|run| run.end(CancelAction::Rollback));
                return Err(error);
            }
        }
    }
    Ok(Json(begun.iter().map(|run| run.record().shown()).collect()))
}

pub(super) async fn wait(
    State(app): State<Arc<App>>,
    Path(thread): Path<String>,
    Body(NewRun(body)): Body<NewRun>,
) -> Result<Response> {
    waited(&app, Some(&thread), body).await
}

pub(super) async fn wait_stateless(State(app): State<Arc<App>>, Body(NewRun(body)): Body<NewRun>) -> Result<Response> {
    waited(&app, None, body).await
}

async fn waited(app: &Arc<App>, thread: Option<&str>, body: RunCreate) -> Result<Response> {
    let leaving = body.on_disconnect.unwrap_or_default();
    let run = start(app, thread, body).await?;
    Ok(answer_at_end(app, run, leaving))
}

pub(super) async fn stream(
    State(app): State<Arc<App>>,
    Path(thread): Path<String>,
    Body(NewRun(body)): Body<NewRun>,
) -> Result<Response> {
    streamed(&app, Some(&thread), body).await
}

pub(super) async fn stream_stateless(
    State(app): State<Arc<App>>,
    Body(NewRun(body)): Body<NewRun>,
) -> Result<Response> {
    streamed(&app, None, body).await
}

async fn streamed(app: &Arc<App>, thread: Option<&str>, body: RunCreate) -> Result<Response> {
    let with_ids = body.stream_resumable;
    let leaving = body.on_disconnect.unwrap_or_default();
    let run = start(app, thread, body).await?;
    Ok(events(&run, From::Start, None, with_ids, leaving))
}
