//! Routes that end runs.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::existing::known;
use crate::app::App;
use crate::auth::owns;
use crate::body::{Body, Params, is_true};
use crate::error::{ApiError, Result};
use crate::ids;
use crate::runs::live::CancelAction;
use crate::runs::others;
use crate::runs::record::Status;
use crate::runs::waiting::ended;

#[derive(Deserialize)]
pub(super) struct Cancel {
    wait: Option<String>,
    action: Option<CancelAction>,
}

pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Path((thread, run)): Path<(String, String)>,
    Params(query): Params<Cancel>,
) -> Result<Response> {
    let record = known(&app, &thread, &run).await?;
    let live = others::live(&app, &record).await?.filter(|_| record.status.is_open());
    let live = live.ok_or_else(|| ApiError::not_found("Open run", &run))?;
    others::end(&app, &live, query.action.unwrap_or_default()).await?;
    if is_true(query.wait.as_deref()) {
        ended(&app, &live).await?;
        return Ok(Json(Value::Object(Map::new())).into_response());
    }
    Ok(StatusCode::ACCEPTED.into_response())
}

/// Which runs to end, by status.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum OpenStatus {
    Pending,
    Running,
    All,
}

#[derive(Deserialize)]
pub(super) struct CancelSeveral {
    status: Option<OpenStatus>,
    thread_id: Option<String>,
    run_ids: Option<Vec<String>>,
}

pub(super) async fn cancel_several(
    State(app): State<Arc<App>>,
    Params(query): Params<Cancel>,
    Body(body): Body<CancelSeveral>,
) -> Result<StatusCode> {
    let how = query.action.unwrap_or_default();
    let ids =
        body.run_ids.as_ref().map(|ids| ids.iter().map(|id| ids::check("run ID", id)).collect::<Result<Vec<_>>>());
    let ids = ids.transpose()?;
    let mut found = match (body.status, &body.thread_id, &body.run_ids) {
        (Some(_), None, None) => {
            others::adopt_all(&app).await?;
            app.runs.all_open()
        }
        (None, Some(thread), Some(_)) => {
            let thread = app.thread(thread).await?.id;
            others::adopt_thread(&app, &thread).await?;
            app.runs.open(&thread)
        }
        _ => return Err(ApiError::invalid("give either `status`, or `thread_id` and `run_ids`")),
    };
    found.retain(|run| {
        let record = run.record();
        let meant = match body.status {
            None | Some(OpenStatus::All) => true,
            Some(OpenStatus::Pending) => record.status == Status::Pending,
            Some(OpenStatus::Running) => record.status == Status::Running,
        };
        meant && owns(record.owner.as_deref()) && ids.as_ref().is_none_or(|ids| ids.contains(&run.id))
    });
    if found.is_empty() {
        return Err(ApiError::new(StatusCode::NOT_FOUND, "No open run matches"));
    }
    for run in found {
        others::end(&app, &run, how).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}
