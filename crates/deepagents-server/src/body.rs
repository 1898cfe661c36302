//! Extractors for request bodies and queries.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::deserialize::from_value;
use crate::error::ApiError;

/// A required JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let Raw(bytes) = Raw::from_request(request, state).await?;
        if bytes.is_empty() {
            return Err(ApiError::invalid("The request needs a body, which may be {}"));
        }
        let json = serde_json::from_slice(&bytes).map_err(|error| error.to_string());
        let read = json.and_then(from_value);
        read.map(Self).map_err(|error| ApiError::invalid(format!("The body cannot be read: {error}")))
    }
}

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// A raw body, read within a time limit.
pub(crate) struct Raw(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let read = tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, state)).await;
        let late = |_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time");
        read.map_err(late)?.map(Self).map_err(|error| ApiError::new(error.status(), error.body_text()))
    }
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
