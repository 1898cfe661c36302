//! Thread search.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::extract::Paths;
use super::matches::{Matches, first_of};
use super::page::{Fields, Limit, SortOrder, pagination};
use super::record::{ThreadStatus, shown};
use crate::app::App;
use crate::body::Body;
use crate::deserialize::present;
use crate::error::Result;
use crate::json::set;

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SortBy {
    ThreadId,
    Status,
    CreatedAt,
    #[default]
    UpdatedAt,
    StateUpdatedAt,
}

/// The fields that a client may select.
const FIELDS: &str =
    "thread_id created_at updated_at state_updated_at metadata config context status values interrupts error";

#[derive(Debug, Deserialize)]
pub(super) struct Search {
    pub(super) ids: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(super) metadata: Option<Map<String, Value>>,
    pub(super) values: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(super) status: Option<ThreadStatus>,
    #[serde(default)]
    limit: Limit,
    #[serde(default)]
    offset: usize,
    pub(super) sort_by: Option<SortBy>,
    pub(super) sort_order: Option<SortOrder>,
    select: Option<Vec<String>>,
    extract: Option<Map<String, Value>>,
}

pub(super) async fn search(State(app): State<Arc<App>>, Body(body): Body<Search>) -> Result<(HeaderMap, Json<Value>)> {
    let fields = Fields::new(body.select.as_deref(), FIELDS)?;
    let paths = body.extract.as_ref().map(Paths::read).transpose()?;
    let (offset, limit) = (body.offset, body.limit.get());
    // One more match shows that there is a next page.
    let found = first_of(&app, &body, offset.saturating_add(limit).saturating_add(1)).await?;
    let headers = pagination(found.len(), offset, limit);
    let with_values = paths.is_some() || fields.have("values") || fields.have("interrupts");
    let mut page = Vec::new();
    for info in found.into_iter().skip(offset).take(limit) {
        let thread = shown(&app, &info, with_values).await?;
        let extracted = paths.as_ref().map(|paths| paths.of(&thread));
        let mut thread = fields.of(thread);
        if let Some(extracted) = extracted {
            set(&mut thread, "extracted", extracted);
        }
        page.push(thread);
    }
    Ok((headers, Json(Value::Array(page))))
}

pub(super) async fn count(State(app): State<Arc<App>>, Body(body): Body<Search>) -> Result<Json<usize>> {
    // A thread keeps its place in this order, whatever happens to it meanwhile.
    let body = Search { sort_by: Some(SortBy::ThreadId), ..body };
    let mut matches = Matches::new(&app, &body).await?;
    let mut count = 0;
    while matches.next().await?.is_some() {
        count += 1;
    }
    Ok(Json(count))
}
