//! Ids and times as clients see them.

use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use uuid::Uuid;

use crate::error::{ApiError, Result};

/// UUID namespace of the assistants that stand for graphs. Clients compute these ids themselves.
const GRAPHS: Uuid = Uuid::from_u128(0x6ba7b821_9dad_11d1_80b4_00c04fd430c8);

/// Formats a time for clients. The length is fixed, so times compare as text.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string()
}

/// Formats a time in milliseconds since 1970 for clients.
pub(crate) fn millis(at: i64) -> String {
    time(Timestamp::from_millisecond(at).unwrap_or_default())
}

/// Returns the current time, formatted for clients.
pub(crate) fn now() -> String {
    time(Timestamp::now())
}

/// Creates a new id. Later ids are greater.
pub(crate) fn fresh() -> String {
    Uuid::now_v7().to_string()
}

/// Returns the id of the assistant that stands for a graph.
pub(crate) fn system_assistant(graph: &str) -> String {
    Uuid::new_v5(&GRAPHS, graph.as_bytes()).to_string()
}

/// Derives an id deterministically from the given words.
pub(crate) fn derived(words: &[&str]) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, words.join("\u{1f}").as_bytes())
}

/// Checks that an id is a UUID and returns it in the canonical spelling.
pub(crate) fn check(what: &str, id: &str) -> Result<String> {
    match Uuid::try_parse(id) {
        Ok(id) => Ok(id.to_string()),
        Err(_) => Err(ApiError::invalid(format!("Invalid {what}: must be a UUID"))),
    }
}

/// Middleware that rewrites the UUIDs of a path to their canonical spelling before routing, and rejects a path that is
/// no text.
pub(crate) async fn read_path(mut request: Request, next: Next) -> Response {
    if !is_text(request.uri().path()) {
        return ApiError::bad_request("The path is not valid UTF-8").into_response();
    }
    if let Some(uri) = canonical(request.uri()) {
        *request.uri_mut() = uri;
    }
    next.run(request).await
}

/// Whether the bytes that a path escapes as `%ff` are UTF-8.
fn is_text(path: &str) -> bool {
    let mut parts = path.split('%');
    let mut bytes: Vec<u8> = parts.next().unwrap_or_default().bytes().collect();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(part.bytes().skip(2));
            }
            None => bytes.extend(part.bytes()),
        }
    }
    std::str::from_utf8(&bytes).is_ok()
}

/// Returns the URI with canonical UUIDs and without empty path segments, or `None` if it is canonical already.
fn canonical(uri: &Uri) -> Option<Uri> {
    let spelt = |part: &str| Uuid::try_parse(part).map_or_else(|_| part.to_owned(), |id| id.to_string());
    let path: String =
        uri.path().split('/').filter(|part| !part.is_empty()).map(|part| format!("/{}", spelt(part))).collect();
    let path = if path.is_empty() { "/".to_owned() } else { path };
    if path == uri.path() {
        return None;
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(format!("{path}{query}")).ok()?);
    Uri::from_parts(parts).ok()
}
