//! Health check and information about the server.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::body::{Params, is_true};
use crate::error::ApiError;

/// How long the database may take to answer a health check.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/info", get(info))
}

/// Routes that need no authentication.
pub(crate) fn open_routes() -> Router<Arc<App>> {
    Router::new().route("/ok", get(ok))
}

#[derive(Deserialize)]
struct Health {
    check_db: Option<String>,
}

/// Reports that the server is up and, if the query asks for it, whether its database is.
async fn ok(State(app): State<Arc<App>>, Params(query): Params<Health>) -> (StatusCode, Json<Value>) {
    if !is_true(query.check_db.as_deref()) {
        return (StatusCode::OK, Json(json!({"ok": true})));
    }
    let looked = tokio::time::timeout(HEALTH_TIMEOUT, app.records(&[]).item("health")).await;
    let is_there = matches!(looked, Ok(Ok(_)));
    let (status, state) =
        if is_there { (StatusCode::OK, "healthy") } else { (StatusCode::SERVICE_UNAVAILABLE, "unhealthy") };
    (status, Json(json!({"ok": is_there, "services": {"database": state}})))
}

async fn info() -> Json<Value> {
    let version = env!("CARGO_PKG_VERSION");
    Json(json!({
        "version": version,
        "langgraph_py_version": null,
        "flags": {"assistants": true, "crons": true, "langsmith": false},
        "host": {"kind": "deepagents", "version": version},
    }))
}

/// Rejects a method that a route does not support.
pub(crate) async fn not_allowed() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
}

/// Rejects an unknown path.
pub(crate) async fn unknown() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "Not Found")
}
