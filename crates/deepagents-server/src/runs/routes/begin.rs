//! Routes that start runs: in the background, waited for, or streamed. Below `/runs`, each run gets its own thread.

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
use crate::runs::create::NewRun;
use crate::runs::live::{CancelAction, LiveRun};
use crate::runs::others;
use crate::runs::record::Status;
use crate::runs::start::{check, start};
use crate::stream::From;

pub(super) async fn create(
    State(app): State<Arc<App>>,
    thread: Option<Path<String>>,
    Body(NewRun(body)): Body<NewRun>,
) -> Result<Response> {
    let run = start(&app, thread.as_ref().map(|thread| thread.as_str()), body).await?;
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

pub(super) async fn batch(State(app): State<Arc<App>>, Body(body): Body<Vec<NewRun>>) -> Result<Json<Value>> {
    let mut begun: Vec<Arc<LiveRun>> = Vec::new();
    if body.is_empty() {
        return Err(ApiError::invalid("a batch must have at least one run"));
    }
    // All are checked before any calls a model.
    for NewRun(one) in &body {
        check(&app, one).await?;
    }
    for NewRun(one) in body {
        match start(&app, None, one).await {
            Ok(run) => begun.push(run),
            Err(error) => {
                // The batch is all or nothing.
                begun.iter().for_each(|run| run.end(CancelAction::Rollback));
                for run in &begun {
                    // A process that resumes the run ends it, too.
                    let _ = others::end(&app, run, CancelAction::Rollback).await;
                }
                return Err(error);
            }
        }
    }
    Ok(Json(begun.iter().map(|run| run.record().shown()).collect()))
}

pub(super) async fn wait(
    State(app): State<Arc<App>>,
    thread: Option<Path<String>>,
    Body(NewRun(body)): Body<NewRun>,
) -> Result<Response> {
    let leaving = body.on_disconnect.unwrap_or_default();
    let run = start(&app, thread.as_ref().map(|thread| thread.as_str()), body).await?;
    Ok(answer_at_end(&app, run, leaving))
}

pub(super) async fn stream(
    State(app): State<Arc<App>>,
    thread: Option<Path<String>>,
    Body(NewRun(body)): Body<NewRun>,
) -> Result<Response> {
    let with_ids = body.stream_resumable;
    let leaving = body.on_disconnect.unwrap_or_default();
    let run = start(&app, thread.as_ref().map(|thread| thread.as_str()), body).await?;
    Ok(events(&run, From::Start, None, with_ids, leaving))
}
