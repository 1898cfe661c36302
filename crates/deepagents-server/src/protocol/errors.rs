//! Errors of commands.

use axum::http::StatusCode;

use crate::error::ApiError;

/// An error with one of the protocol's error codes.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct CommandError {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl CommandError {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid_argument", message)
    }
}

impl From<ApiError> for CommandError {
    fn from(error: ApiError) -> Self {
        let code = match error.status() {
            StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => "invalid_argument",
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => "permission_denied",
            _ => "unknown_error",
        };
        Self::new(code, error.to_string())
    }
}
