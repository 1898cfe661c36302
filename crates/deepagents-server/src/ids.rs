//! Ids as clients see them.

use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use axum::middleware::Next;
use axum::response::Response;
use jiff::Timestamp;
use uuid::Uuid;

use crate::error::{ApiError, Result};

/// The namespace of assistants that stand for graphs, which clients work out themselves.
const GRAPHS: Uuid = Uuid::from_u128(0x6ba7b821_9dad_11d1_80b4_00c04fd430c8);

/// A time as clients are sent it: of one length, so that later ones are greater as text too.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string()
}

/// A time in milliseconds since 1970, as clients are sent it.
pub(crate) fn millis(at: i64) -> String {
    time(Timestamp::from_millisecond(at).unwrap_or_default())
}

/// Now, as clients are sent it.
pub(crate) fn now() -> String {
    time(Timestamp::now())
}

/// A fresh id; later ones are greater.
pub(crate) fn fresh() -> String {
    Uuid::now_v7().to_string()
}

/// The id of the assistant that stands for a graph.
pub(crate) fn system_assistant(graph: &str) -> String {
    Uuid::new_v5(&GRAPHS, graph.as_bytes()).to_string()
}

/// An id that is the same whenever it is worked out from the same words.
pub(crate) fn derived(words: &[&str]) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, words.join("\u{1f}").as_bytes())
}

/// Refuses what is no UUID, and gives one in the spelling that it is kept under.
pub(crate) fn check(what: &str, id: &str) -> Result<String> {
    match Uuid::try_parse(id) {
        Ok(id) => Ok(id.to_string()),
        Err(_) => Err(ApiError::invalid(format!("Invalid {what}: must be a UUID"))),
    }
}

/// Reads the ids of a path in all the spellings that UUIDs have, before a route is looked for.
pub(crate) async fn read_path(mut request: Request, next: Next) -> Response {
    if let Some(uri) = canonical(request.uri()) {
        *request.uri_mut() = uri;
    }
    next.run(request).await
}

/// An address whose ids are spelt as they are kept, without slashes that name nothing; none where it is so already.
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
