//! Error responses.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use deepagents_core::error::Error;
use deepagents_core::journal::JournalError;
use deepagents_core::state::ChannelError;
use deepagents_core::store::StoreError;
use serde_json::json;

use crate::wire::InputError;

/// An error response: a status and the body `{"detail": "…"}`.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub(crate) struct ApiError {
    status: StatusCode,
    detail: String,
    /// When to retry, if later than almost immediately.
    retry_after: Option<Duration>,
}

pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

impl ApiError {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), retry_after: None }
    }

    /// Creates an error for a limit that is exhausted for the duration `wait`.
    pub(crate) fn too_many(detail: impl Into<String>, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..Self::new(StatusCode::TOO_MANY_REQUESTS, detail) }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Whether a retry may succeed a little later.
    pub(crate) fn is_temporary(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    pub(crate) fn is_conflict(&self) -> bool {
        self.status == StatusCode::CONFLICT
    }

    pub(crate) fn is_invalid(&self) -> bool {
        self.status == StatusCode::UNPROCESSABLE_ENTITY
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("{what} {id} not found"))
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({"detail": self.detail}))).into_response();
        if matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            let seconds = self.retry_after.map_or(1, |wait| wait.as_secs() + 1);
            response.headers_mut().insert("retry-after", axum::http::HeaderValue::from(seconds));
        }
        response
    }
}

impl From<JournalError> for ApiError {
    fn from(error: JournalError) -> Self {
        let detail = error.to_string();
        match error {
            JournalError::Busy { .. }
            | JournalError::Conflict { .. }
            | JournalError::Fenced { .. }
            | JournalError::Exists { .. } => Self::conflict(detail),
            JournalError::NoState { .. } | JournalError::NotFound { .. } | JournalError::NoAgent { .. } => {
                Self::new(StatusCode::NOT_FOUND, detail)
            }
            JournalError::Name { .. } | JournalError::Metadata { .. } => Self::invalid(detail),
            JournalError::Unavailable { .. } | JournalError::Storage(_) => Self::unavailable(detail),
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Namespace { .. } | StoreError::Key { .. } | StoreError::Value { .. } => {
                Self::invalid(error.to_string())
            }
            StoreError::Conflict { .. } => Self::conflict(error.to_string()),
            _ => Self::unavailable(error.to_string()),
        }
    }
}

impl From<InputError> for ApiError {
    fn from(error: InputError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<ChannelError> for ApiError {
    fn from(error: ChannelError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        match error {
            Error::Journal(error) => error.into(),
            Error::Store(error) => error.into(),
            Error::Channel(_) | Error::Input(_) | Error::History(_) | Error::Answer(_) => {
                Self::invalid(error.to_string())
            }
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}
