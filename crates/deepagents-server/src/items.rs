//! The store of clients.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{post, put};
use axum::{Json, Router};
use deepagents_core::store::{Comparison, Filter, Item, NamespaceQuery, Query};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::body::{Body, Params};
use crate::error::{ApiError, Result};

/// What clients store lies below this namespace.
const ROOT: &str = "deepagents-server-store";

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/store/items", put(put_item).get(get_item).delete(delete_item))
        .route("/store/items/search", post(search))
        .route("/store/namespaces", post(namespaces))
}

fn below(namespace: &[String]) -> Vec<String> {
    std::iter::once(ROOT.to_owned()).chain(namespace.iter().cloned()).collect()
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
    #[serde(default)]
    namespace: Vec<String>,
    key: String,
    value: Map<String, Value>,
}

async fn put_item(State(app): State<Arc<App>>, Body(body): Body<PutItem>) -> Result<StatusCode> {
    app.store.put(&below(&body.namespace), &body.key, Value::Object(body.value)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct Place {
    /// Joined by dots.
    #[serde(default)]
    namespace: String,
    key: String,
}

/// The item, or null where there is none.
async fn get_item(State(app): State<Arc<App>>, Params(place): Params<Place>) -> Result<Json<Value>> {
    let namespace: Vec<String> =
        place.namespace.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let found = app.store.get(&below(&namespace), &place.key).await?;
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
    #[serde(default)]
    namespace_prefix: Option<Vec<String>>,
    #[serde(default)]
    filter: Option<Map<String, Value>>,
    limit: Option<usize>,
    offset: Option<usize>,
}

async fn search(State(app): State<Arc<App>>, Body(body): Body<Search>) -> Result<Json<Value>> {
    let mut query = Query { limit: body.limit.unwrap_or(10), offset: body.offset.unwrap_or(0), ..Query::default() };
    for (field, wanted) in body.filter.unwrap_or_default() {
        match wanted {
            Value::Object(tests) if !tests.is_empty() && tests.keys().all(|key| key.starts_with('$')) => {
                for (word, value) in tests {
                    query.filters.push(Filter::new(field.clone(), comparison(&word, value)?));
                }
            }
            value => {
                query.fields.insert(field, value);
            }
        }
    }
    let found = app.store.search(&below(&body.namespace_prefix.unwrap_or_default()), &query).await?;
    let scored = found.into_iter().map(|item| {
        let mut item = shown(&item);
        item.as_object_mut().map(|item| item.insert("score".to_owned(), Value::Null));
        item
    });
    Ok(Json(json!({"items": scored.collect::<Vec<_>>()})))
}

fn comparison(word: &str, value: Value) -> Result<Comparison> {
    Ok(match word {
        "$eq" => Comparison::Equal(value),
        "$ne" => Comparison::NotEqual(value),
        "$gt" => Comparison::Above(value),
        "$gte" => Comparison::AtLeast(value),
        "$lt" => Comparison::Below(value),
        "$lte" => Comparison::AtMost(value),
        other => {
            return Err(ApiError::invalid(format!(
                "`{other}` is no comparison; those are $eq, $ne, $gt, $gte, $lt and $lte"
            )));
        }
    })
}

#[derive(Deserialize)]
struct Namespaces {
    #[serde(default)]
    prefix: Option<Vec<String>>,
    #[serde(default)]
    suffix: Option<Vec<String>>,
    max_depth: Option<usize>,
    limit: Option<usize>,
    offset: Option<usize>,
}

async fn namespaces(State(app): State<Arc<App>>, Body(body): Body<Namespaces>) -> Result<Json<Value>> {
    let mut query = NamespaceQuery::default();
    query.prefix = below(&body.prefix.unwrap_or_default());
    let found = app.store.list_namespaces(&query).await?;
    let suffix = body.suffix.unwrap_or_default();
    let mut out: Vec<Vec<String>> = found
        .into_iter()
        .map(|namespace| namespace.into_iter().skip(1).collect::<Vec<_>>())
        .filter(|namespace| namespace.ends_with(&suffix))
        .map(|mut namespace| {
            namespace.truncate(body.max_depth.unwrap_or(usize::MAX));
            namespace
        })
        .collect();
    out.dedup();
    let page = out.into_iter().skip(body.offset.unwrap_or(0)).take(body.limit.unwrap_or(100));
    Ok(Json(json!({"namespaces": page.collect::<Vec<_>>()})))
}
