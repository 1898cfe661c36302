//! Whether the server is there, and what it is.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/info", get(info))
}

/// What everybody may ask.
pub(crate) fn open_routes() -> Router<Arc<App>> {
    Router::new().route("/ok", get(ok))
}

async fn ok() -> Json<Value> {
    Json(json!({"ok": true}))
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

/// What a route is not for.
pub(crate) async fn not_allowed() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
}

/// What no route is for.
pub(crate) async fn unknown() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "Not Found")
}
