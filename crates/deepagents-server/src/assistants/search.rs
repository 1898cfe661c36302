//! Search for assistants.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::record::{Assistant, all};
use crate::app::App;
use crate::body::Body;
use crate::deserialize::present;
use crate::error::Result;
use crate::threads::{Limit, SortOrder, contains, page_of};

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SortBy {
    AssistantId,
    GraphId,
    Name,
    #[default]
    CreatedAt,
    UpdatedAt,
}

/// The fields that a client may select.
const FIELDS: &str = "assistant_id graph_id name description config context metadata version created_at updated_at";

#[derive(Deserialize)]
pub(super) struct Search {
    #[serde(default, deserialize_with = "present")]
    metadata: Option<Map<String, Value>>,
    graph_id: Option<String>,
    name: Option<String>,
    #[serde(default)]
    limit: Limit,
    #[serde(default)]
    offset: usize,
    sort_by: Option<SortBy>,
    sort_order: Option<SortOrder>,
    select: Option<Vec<String>>,
}

async fn found(app: &App, search: &Search) -> Result<Vec<Assistant>> {
    search.graph_id.as_ref().map(|graph| app.known_agent(graph)).transpose()?;
    let metadata = search.metadata.clone().unwrap_or_default();
    let name = search.name.as_ref().map(|name| name.to_lowercase());
    let mut found = all(app).await?;
    found.retain(|assistant| {
        search.graph_id.as_ref().is_none_or(|graph| *graph == assistant.graph_id)
            && name.as_ref().is_none_or(|name| assistant.name.to_lowercase().contains(name.as_str()))
            && contains(&assistant.metadata, &metadata)
    });
    match search.sort_by.unwrap_or_default() {
        SortBy::Name => found.sort_by_key(|assistant| assistant.name.to_lowercase()),
        SortBy::UpdatedAt => found.sort_by(|a, b| a.updated_at.cmp(&b.updated_at)),
        SortBy::AssistantId => found.sort_by(|a, b| a.assistant_id.cmp(&b.assistant_id)),
        SortBy::GraphId => found.sort_by(|a, b| a.graph_id.cmp(&b.graph_id)),
        SortBy::CreatedAt => found.sort_by(|a, b| a.created_at.cmp(&b.created_at)),
    }
    if search.sort_order.unwrap_or_default() == SortOrder::Desc {
        found.reverse();
    }
    Ok(found)
}

pub(super) async fn search(State(app): State<Arc<App>>, Body(body): Body<Search>) -> Result<(HeaderMap, Json<Value>)> {
    page_of(found(&app, &body).await?, (body.offset, body.limit), body.select.as_deref(), FIELDS)
}

pub(super) async fn count(State(app): State<Arc<App>>, Body(body): Body<Search>) -> Result<Json<usize>> {
    Ok(Json(found(&app, &body).await?.len()))
}
