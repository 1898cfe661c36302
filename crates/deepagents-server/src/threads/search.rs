//! Thread search.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use deepagents_core::journal::{ThreadInfo, ThreadQuery};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::extract::Paths;
use super::page::{Fields, Limit, SortOrder, contains, pagination};
use super::record::{Held, shown, status};
use crate::app::App;
use crate::auth::owns_thread;
use crate::body::{Body, present};
use crate::error::{ApiError, Result};
use crate::ids;

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

/// The fields that a client may select.
const FIELDS: [&str; 11] = [
    "thread_id",
    "created_at",
    "updated_at",
    "state_updated_at",
    "metadata",
    "config",
    "context",
    "status",
    "values",
    "interrupts",
    "error",
];

#[derive(Deserialize)]
pub(super) struct Search {
    ids: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    metadata: Option<Map<String, Value>>,
    values: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    status: Option<Status>,
    #[serde(default)]
    limit: Limit,
    #[serde(default)]
    offset: usize,
    sort_by: Option<SortBy>,
    sort_order: Option<SortOrder>,
    select: Option<Vec<String>>,
    extract: Option<Map<String, Value>>,
}

async fn found(app: &App, search: &Search) -> Result<Vec<ThreadInfo>> {
    let wanted = search.metadata.clone().unwrap_or_default();
    // An empty list does not filter.
    let mut found = match search.ids.as_ref().filter(|ids| !ids.is_empty()) {
        Some(ids) => {
            let mut found = Vec::new();
            for id in ids {
                let id = ids::check("thread ID", id).map_err(|error| ApiError::bad_request(error.to_string()))?;
                found.extend(app.journal.threads().get(&id).await?);
            }
            found
        }
        None => app.journal.threads().list(&ThreadQuery::default()).await?,
    };
    found.retain(|info| {
        owns_thread(info)
            && contains(&app.shown_metadata(info), &wanted)
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
        SortBy::UpdatedAt => found.sort_by_key(|info| info.updated_at),
        SortBy::StateUpdatedAt => found.sort_by_cached_key(|info| Held::read(info).state_updated_at(info)),
        SortBy::Status => found.sort_by_key(|info| status(app, info, &Held::read(info))),
    }
    if search.sort_order.unwrap_or_default() == SortOrder::Desc {
        found.reverse();
    }
    Ok(found)
}

pub(super) async fn search(State(app): State<Arc<App>>, Body(body): Body<Search>) -> Result<(HeaderMap, Json<Value>)> {
    let fields = Fields::new(body.select.as_deref(), &FIELDS)?;
    let paths = body.extract.as_ref().map(Paths::read).transpose()?;
    let found = found(&app, &body).await?;
    let (offset, limit) = (body.offset, body.limit.get());
    let headers = pagination(found.len(), offset, limit);
    let with_values = paths.is_some() || fields.have("values") || fields.have("interrupts");
    let mut page = Vec::new();
    for info in found.into_iter().skip(offset).take(limit) {
        let thread = shown(&app, &info, with_values).await?;
        let extracted = paths.as_ref().map(|paths| paths.of(&thread));
        let mut thread = fields.of(thread);
        if let (Some(thread), Some(extracted)) = (thread.as_object_mut(), extracted) {
            thread.insert("extracted".to_owned(), extracted);
        }
        page.push(thread);
    }
    Ok((headers, Json(Value::Array(page))))
}

pub(super) async fn count(State(app): State<Arc<App>>, Body(body): Body<Search>) -> Result<Json<usize>> {
    Ok(Json(found(&app, &body).await?.len()))
}
