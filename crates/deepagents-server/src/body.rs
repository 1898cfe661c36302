//! Extractors for request bodies and queries.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::deserialize::from_value;
use crate::error::ApiError;

/// Maximum size of a request body, in bytes: enough for a message with images.
pub(crate) const MAX_BODY_BYTES: usize = 64 << 20;

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Size in bytes above which a body takes part of [`LARGE_BODY_ROOM`], and is parsed on the blocking thread pool.
const LARGE_BODY_BYTES: usize = 1 << 20;

/// Room for the large bodies that are read and parsed at the same time, in KiB. They are limited for the whole process,
/// because memory is.
static LARGE_BODY_ROOM: Semaphore = Semaphore::const_new(512 << 10);

/// Maximum number of values in a JSON body. Two bytes of JSON can become a value of some hundred bytes in memory.
const MAX_JSON_VALUES: usize = 1_000_000;

/// A required JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send + 'static> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (bytes, _room) = read(request, state).await?;
        if bytes.is_empty() {
            return Err(ApiError::invalid("The request needs a body, which may be {}"));
        }
        let is_large = bytes.len() > LARGE_BODY_BYTES;
        let parse = move || {
            check_size(&bytes)?;
            let json = serde_json::from_slice(&bytes).map_err(|error| error.to_string());
            json.and_then(from_value).map_err(|error| ApiError::invalid(format!("The body cannot be read: {error}")))
        };
        let parsed = if is_large { blocking(parse).await? } else { parse()? };
        Ok(Self(parsed))
    }
}

/// A raw JSON body.
pub(crate) struct Raw(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (bytes, _room) = read(request, state).await?;
        let is_large = bytes.len() > LARGE_BODY_BYTES;
        let check = move || check_size(&bytes).map(|()| Self(bytes));
        if is_large { blocking(check).await } else { check() }
    }
}

/// Reads a body within a time limit. A large one waits for room, which it keeps until the room is dropped.
async fn read<S: Send + Sync>(
    request: Request,
    state: &S,
) -> Result<(Bytes, Option<SemaphorePermit<'static>>), ApiError> {
    let declared = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    // Without a length, the body may be as large as the server allows.
    let bytes = declared.unwrap_or(MAX_BODY_BYTES).min(MAX_BODY_BYTES);
    let room = if bytes > LARGE_BODY_BYTES {
        let needed = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        let room = tokio::time::timeout(BODY_TIMEOUT, LARGE_BODY_ROOM.acquire_many(needed)).await;
        let busy = || ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too many large bodies at once; try again later");
        Some(room.ok().and_then(Result::ok).ok_or_else(busy)?)
    } else {
        None
    };
    let read = tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, state)).await;
    let late = |_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time");
    let bytes = read.map_err(late)?.map_err(|error| ApiError::new(error.status(), error.body_text()))?;
    Ok((bytes, room))
}

async fn blocking<T: Send + 'static>(
    what: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let failed = |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the body could not be read");
    tokio::task::spawn_blocking(what).await.map_err(failed)?
}

/// Rejects JSON of more than [`MAX_JSON_VALUES`] values, before memory is allocated for them.
fn check_size(json: &[u8]) -> Result<(), ApiError> {
    // Each value but the first follows a comma or the beginning of a list or object.
    let (mut values, mut in_string, mut escaped) = (1_usize, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    if values <= MAX_JSON_VALUES {
        return Ok(());
    }
    let detail = format!("the body has more than {MAX_JSON_VALUES} JSON values; send less at once");
    Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, detail))
}

/// A deserialised query.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        query.map(|query| Self(query.0)).map_err(|error| ApiError::invalid(error.body_text()))
    }
}

/// Parses a boolean query parameter in the spellings that clients use.
pub(crate) fn is_true(switch: Option<&str>) -> bool {
    matches!(switch, Some("1" | "true" | "True"))
}

/// A query in which names may repeat.
pub(crate) struct Pairs(Vec<(String, String)>);

impl Pairs {
    /// Returns the value of a name, or the last one if it repeats.
    pub(crate) fn one(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns all values of a name, in any of the forms that clients use: repeated names, a JSON list, or a
    /// comma-separated list.
    pub(crate) fn all<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>, ApiError> {
        let mut words: Vec<Value> = Vec::new();
        for (_, value) in self.0.iter().filter(|(known, value)| known == name && !value.is_empty()) {
            match serde_json::from_str(value) {
                Ok(Value::Array(several)) => words.extend(several),
                _ => words.extend(value.split(',').map(|one| Value::from(one.trim()))),
            }
        }
        let read = words.into_iter().map(serde_json::from_value).collect::<Result<_, _>>();
        read.map_err(|error| ApiError::invalid(format!("`{name}` cannot be read: {error}")))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Pairs {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Params::from_request_parts(parts, state).await.map(|Params(pairs)| Self(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_too_many_values_is_rejected_wherever_they_are_and_text_counts_once() {
        let list = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        assert!(check_size(list(MAX_JSON_VALUES - 1).as_bytes()).is_ok());
        assert!(check_size(list(MAX_JSON_VALUES).as_bytes()).is_err());
        assert!(check_size(format!("[{}{{}}]", "{},".repeat(MAX_JSON_VALUES / 2)).as_bytes()).is_err());
        let text = serde_json::to_string(&"[\\\",{".repeat(MAX_JSON_VALUES)).unwrap();
        assert!(check_size(text.as_bytes()).is_ok());
    }
}
