//! Finding threads.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use deepagents_core::journal::{ThreadInfo, ThreadQuery};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::record::{Held, shown, status};
use crate::app::{App, shown_metadata};
use crate::auth::owns_thread;
use crate::body::Body;
use crate::error::Result;

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Idle,
    Busy,
    Interrupted,
    Error,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SortBy {
    ThreadId,
    Status,
    CreatedAt,
    #[default]
    UpdatedAt,
    StateUpdatedAt,
}

#[derive(Deserialize)]
pub(super) struct Search {
    ids: Option<Vec<String>>,
    metadata: Option<Map<String, Value>>,
    values: Option<Map<String, Value>>,
    status: Option<Status>,
    limit: Option<usize>,
    offset: Option<usize>,
    sort_by: Option<SortBy>,
    sort_order: Option<String>,
    select: Option<Vec<String>>,
}

async fn found(app: &App, search: &Search) -> Result<Vec<ThreadInfo>> {
    let wanted = search.metadata.clone().unwrap_or_default();
    let mut found = match &search.ids {
        Some(ids) => {
            let mut found = Vec::new();
            for id in ids {
                found.extend(app.journal.threads().get(id).await?);
            }
            found
        }
        None => app.journal.threads().list(&ThreadQuery::default()).await?,
    };
    found.retain(|info| {
        owns_thread(info)
            && contains(&shown_metadata(info), &wanted)
            && search.status.is_none_or(|wanted| status(app, info, &Held::read(info)) == wanted.as_str())
    });
    if let Some(wanted) = search.values.as_ref().filter(|wanted| !wanted.is_empty()) {
        let mut kept = Vec::new();
        for info in found {
            let thread = shown(app, &info, true).await?;
            if thread.get("values").and_then(Value::as_object).is_some_and(|values| contains(values, wanted)) {
                kept.push(info);
            }
        }
        found = kept;
    }
    match search.sort_by.unwrap_or_default() {
        SortBy::ThreadId => found.sort_by(|a, b| a.id.cmp(&b.id)),
        SortBy::CreatedAt => found.sort_by_key(|info| info.created_at),
        SortBy::UpdatedAt | SortBy::StateUpdatedAt => found.sort_by_key(|info| info.updated_at),
        SortBy::Status => found.sort_by_key(|info| status(app, info, &Held::read(info))),
    }
    if search.sort_order.as_deref() != Some("asc") {
        found.reverse();
    }
    Ok(found)
}

pub(super) async fn search(State(app): State<Arc<App>>, Body(body): Body<Search>) -> Result<(HeaderMap, Json<Value>)> {
    let found = found(&app, &body).await?;
    let (offset, limit) = (body.offset.unwrap_or(0), body.limit.unwrap_or(10));
    let headers = pagination(found.len(), offset, limit);
    let select = body.select.as_deref();
    let with_values = select.is_none_or(|select| select.iter().any(|key| key == "values" || key == "interrupts"));
    let mut page = Vec::new();
    for info in found.into_iter().skip(offset).take(limit) {
        page.push(project(shown(&app, &info, with_values).await?, select));
    }
    Ok((headers, Json(Value::Array(page))))
}

pub(super) async fn count(State(app): State<Arc<App>>, Body(body): Body<Search>) -> Result<Json<usize>> {
    Ok(Json(found(&app, &body).await?.len()))
}

/// Whether an object has all of what is wanted, also inside of objects.
pub(crate) fn contains(has: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(key, wanted)| match (has.get(key), wanted) {
        (Some(Value::Object(has)), Value::Object(wanted)) => contains(has, wanted),
        (has, wanted) => has == Some(wanted),
    })
}

/// How many there are in all, and where the next page begins.
pub(crate) fn pagination(total: usize, offset: usize, limit: usize) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(HeaderName::from_static("x-pagination-total"), HeaderValue::from(total));
    let next = offset.saturating_add(limit);
    if next < total {
        headers.insert(HeaderName::from_static("x-pagination-next"), HeaderValue::from(next));
    }
    headers
}

/// The keys of an object that somebody wants.
pub(crate) fn project(mut value: Value, select: Option<&[String]>) -> Value {
    if let (Some(select), Some(object)) = (select, value.as_object_mut()) {
        object.retain(|key, _| select.contains(key));
    }
    value
}
