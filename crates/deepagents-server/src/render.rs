//! Rendering large states as JSON without holding up other requests.

use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::error::{ApiError, Result};

/// Number of messages from which states are rendered on a thread of their own.
const LARGE: usize = 256;

/// Does work whose cost grows with a number of messages.
pub(crate) async fn render<T: Send + 'static>(
    messages: usize,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if messages < LARGE {
        return work();
    }
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::unavailable(error.to_string()))?
}

/// Writes states as a response.
pub(crate) async fn written(states: Value) -> Result<Response> {
    let messages =
        |state: &Value| state.get("values").and_then(|values| values.get("messages")?.as_array().map(Vec::len));
    let size = match &states {
        Value::Array(states) => states.iter().filter_map(messages).sum(),
        state => messages(state).unwrap_or_default(),
    };
    let text = render(size, move || Ok(states.to_string())).await?;
    Ok(([(CONTENT_TYPE, "application/json")], Bytes::from(text)).into_response())
}
