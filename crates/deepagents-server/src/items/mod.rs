//! The store routes for clients.

mod filter;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{post, put};
use axum::{Json, Router};
use deepagents_core::store::{Expected, Item, NamespaceQuery, Query, StoreError, Write};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::auth::caller;
use crate::body::{Body, Params, is_true};
use crate::error::{ApiError, Result};
use crate::ids;
use crate::json::set;

/// Namespace below which the items of clients are stored.
const ROOT: &str = "deepagents-server-store";

/// Maximum number of different words in a search.
const MAX_SEARCH_WORDS: usize = 256;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/store/items", put(put_item).get(get_item).delete(delete_item))
        .route("/store/items/search", post(search))
        .route("/store/namespaces", post(namespaces))
}

fn below(namespace: &[String]) -> Vec<String> {
    // Each caller has a separate store. The id is hashed because it may contain characters that a namespace may not.
    let root = match caller() {
        Some(caller) => format!("{ROOT}-{}", ids::derived(&[caller.id()]).simple()),
        None => ROOT.to_owned(),
    };
    std::iter::once(root).chain(namespace.iter().cloned()).collect()
}

/// Rejects a namespace in which no item can be put.
fn check_place(namespace: &[String]) -> Result<()> {
    match namespace.first() {
        None => Err(ApiError::bad_request("`namespace` is empty; it must be a list of labels")),
        Some(first) if first == "langgraph" => {
            Err(ApiError::bad_request("`langgraph` is reserved for the server; begin `namespace` with another label"))
        }
        // Clients join the labels with dots to request an item.
        Some(_) if namespace.iter().any(|label| label.is_empty() || label.contains('.')) => {
            Err(ApiError::invalid("each label of `namespace` must be a non-empty string without dots"))
        }
        Some(_) => Ok(()),
    }
}

fn shown(item: &Item) -> Value {
    let namespace = item.namespace.get(1..).unwrap_or_default();
    json!({
        "namespace": namespace, "key": item.key, "value": item.value,
        "created_at": item.created_at, "updated_at": item.updated_at,
    })
}

#[derive(Deserialize)]
struct PutItem {
    namespace: Vec<String>,
    key: String,
    value: Map<String, Value>,
    /// Time to live in minutes.
    ttl: Option<f64>,
    /// Which fields are indexed for semantic search. No field is.
    #[allow(dead_code, reason = "it is refused where it is of another form")]
    index: Option<Index>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected true, false, or a list of fields")]
enum Index {
    Switch(#[allow(dead_code, reason = "as above")] bool),
    Fields(#[allow(dead_code, reason = "as above")] Vec<String>),
}

async fn put_item(State(app): State<Arc<App>>, Body(body): Body<PutItem>) -> Result<StatusCode> {
    check_place(&body.namespace)?;
    let ttl = body.ttl.map(|minutes| Duration::try_from_secs_f64(minutes * 60.0));
    let ttl = ttl.transpose().map_err(|_| ApiError::invalid("`ttl` must be a number of minutes"))?;
    let write = Write { ttl, ..Write::default() };
    app.store.write(&below(&body.namespace), &body.key, Value::Object(body.value), write).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct Place {
    /// The labels, joined by dots.
    namespace: String,
    key: String,
    refresh_ttl: Option<String>,
}

/// Restarts an item's time to live, if it has one.
async fn refresh(app: &App, item: &Item) -> Result<()> {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let Some(until) = item.expires_at.as_deref().and_then(time) else { return Ok(()) };
    let life = time(&item.updated_at).and_then(|put| Duration::try_from(put.duration_until(until)).ok());
    // An expiry that cannot be parsed does not become "never".
    let Some(life) = life else { return Ok(()) };
    let write = Write { ttl: Some(life), expected: Expected::Version(Some(item.version)), size: None };
    match app.store.write(&item.namespace, &item.key, item.value.clone(), write).await {
        // The item was overwritten or deleted concurrently.
        Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the item, or null if there is none.
async fn get_item(State(app): State<Arc<App>>, Params(place): Params<Place>) -> Result<Json<Value>> {
    let namespace: Vec<String> = place.namespace.split('.').map(str::to_owned).collect();
    if namespace.iter().any(String::is_empty) {
        return Err(ApiError::invalid("`namespace` must be labels separated by dots"));
    }
    let found = app.store.get(&below(&namespace), &place.key).await?;
    if let Some(item) = found.as_ref().filter(|_| is_true(place.refresh_ttl.as_deref())) {
        refresh(&app, item).await?;
    }
    Ok(Json(found.as_ref().map_or(Value::Null, shown)))
}

#[derive(Deserialize)]
struct DeleteItem {
    #[serde(default)]
    namespace: Vec<String>,
    key: String,
}

async fn delete_item(State(app): State<Arc<App>>, Body(body): Body<DeleteItem>) -> Result<StatusCode> {
    app.store.delete(&below(&body.namespace), &body.key).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct Search {
    namespace_prefix: Option<Vec<String>>,
    filter: Option<Value>,
    limit: Option<usize>,
    offset: Option<usize>,
    /// Words to search for.
    query: Option<String>,
    refresh_ttl: Option<bool>,
}

async fn search(State(app): State<Arc<App>>, Body(body): Body<Search>) -> Result<Json<Value>> {
    let (limit, offset) = (body.limit.unwrap_or(10), body.offset.unwrap_or(0));
    let mut words: Vec<String> =
        body.query.iter().flat_map(|text| text.split_whitespace()).map(str::to_lowercase).collect();
    words.sort_unstable();
    words.dedup();
    if words.len() > MAX_SEARCH_WORDS {
        return Err(ApiError::invalid(format!("`query` may have {MAX_SEARCH_WORDS} different words at most")));
    }
    let mut query = Query::default();
    if words.is_empty() {
        (query.limit, query.offset) = (limit, offset);
    }
    filter::read(&mut query, body.filter.unwrap_or_default())?;
    let found = app.store.search(&below(&body.namespace_prefix.unwrap_or_default()), &query).await?;
    let scored: Vec<(Option<f64>, Item)> = if words.is_empty() {
        found.into_iter().map(|item| (None, item)).collect()
    } else {
        // Items can be large, and all of them are read.
        let best = tokio::task::spawn_blocking(move || best(found, &words, offset, limit)).await;
        best.map_err(|_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the search failed"))?
    };
    if body.refresh_ttl == Some(true) {
        for (_, item) in &scored {
            refresh(&app, item).await?;
        }
    }
    let items = scored.iter().map(|(score, item)| {
        let mut item = shown(item);
        set(&mut item, "score", *score);
        item
    });
    Ok(Json(json!({"items": items.collect::<Vec<_>>()})))
}

/// Returns a page of the items that contain any of the words, the best first.
fn best(found: Vec<Item>, words: &[String], offset: usize, limit: usize) -> Vec<(Option<f64>, Item)> {
    let mut scored: Vec<(f64, Item)> = found.into_iter().map(|item| (score(&item, words), item)).collect();
    scored.retain(|(score, _)| *score > 0.0);
    scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    scored.into_iter().skip(offset).take(limit).map(|(score, item)| (Some(score), item)).collect()
}

/// Returns the share of the words that an item contains.
#[allow(clippy::cast_precision_loss, reason = "a search has few words")]
fn score(item: &Item, words: &[String]) -> f64 {
    let text = format!("{} {}", item.key, item.value).to_lowercase();
    let found = words.iter().filter(|word| text.contains(word.as_str())).count();
    found as f64 / words.len() as f64
}

#[derive(Deserialize)]
struct Namespaces {
    prefix: Option<Vec<String>>,
    suffix: Option<Vec<String>>,
    max_depth: Option<usize>,
    limit: Option<usize>,
    offset: Option<usize>,
}

async fn namespaces(State(app): State<Arc<App>>, Body(body): Body<Namespaces>) -> Result<Json<Value>> {
    let mut query = NamespaceQuery::default();
    query.prefix = below(&body.prefix.unwrap_or_default());
    query.suffix = body.suffix.unwrap_or_default();
    let found = app.store.list_namespaces(&query).await?;
    let mut out: Vec<Vec<String>> = found
        .into_iter()
        .map(|namespace| namespace.into_iter().skip(1).collect::<Vec<_>>())
        // The suffix must match labels of the client, not the root in front of them.
        .filter(|namespace| namespace.len() >= query.suffix.len())
        .map(|mut namespace| {
            namespace.truncate(body.max_depth.unwrap_or(usize::MAX));
            namespace
        })
        .collect();
    out.dedup();
    let page = out.into_iter().skip(body.offset.unwrap_or(0)).take(body.limit.unwrap_or(100));
    Ok(Json(json!({"namespaces": page.collect::<Vec<_>>()})))
}
