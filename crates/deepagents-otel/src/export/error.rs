//! Export errors.

use std::time::Duration;

/// Reports why an exporter could not be created, or why an export failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ExportError {
    /// There is no tokio runtime to run the export tasks.
    #[error("exporting needs a tokio runtime; create the tracer inside one")]
    NoRuntime,
    /// The address is invalid.
    #[error("`{url}` is not the address of a trace receiver: {reason}; write it as http://localhost:4318/v1/traces")]
    BadUrl { url: String, reason: String },
    /// A header is invalid. The value may be secret, so it is not included.
    #[error(
        "the header `{name}` cannot be sent: its name or value contains characters that are not allowed in headers"
    )]
    BadHeader { name: String },
    /// The HTTP client could not be created.
    #[error("the HTTP client for traces could not be created: {0}")]
    Client(String),
    /// The receiver could not be reached, or the connection broke.
    #[error("the trace receiver cannot be reached: {0}")]
    Transport(String),
    /// The receiver rejected the request.
    #[error("the trace receiver refused the traces: {reason}")]
    Refused { reason: String, retryable: bool, retry_after: Option<Duration> },
    /// The export timed out.
    #[error("the trace receiver did not answer within {0:?}")]
    Timeout(Duration),
    /// The file could not be written.
    #[error("the trace file cannot be written: {0}")]
    File(#[source] std::io::Error),
}

impl ExportError {
    /// Returns whether the same request may be retried.
    pub(super) fn is_retryable(&self) -> bool {
        match self {
            Self::Transport(_) => true,
            Self::Refused { retryable, .. } => *retryable,
            _ => false,
        }
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
