//! Why spans and metrics cannot be sent.

use std::time::Duration;

/// Why an exporter could not be made, or an export failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ExportError {
    /// Tasks need a runtime.
    #[error("exporting needs a tokio runtime; make the tracer within one")]
    NoRuntime,
    /// The address is none.
    #[error("`{url}` is not an address of a receiver of traces: {reason}; write it as http://localhost:4318/v1/traces")]
    BadUrl { url: String, reason: String },
    /// A header that cannot be sent; its value may be secret.
    #[error("the header `{name}` cannot be sent: its name or value holds characters that headers may not hold")]
    BadHeader { name: String },
    /// The HTTP client could not be made.
    #[error("the HTTP client for traces could not be made: {0}")]
    Client(String),
    /// The receiver cannot be reached, or the connection broke.
    #[error("the receiver of traces cannot be reached: {0}")]
    Transport(String),
    /// The receiver answered that it did not take it.
    #[error("the receiver of traces refused them: {reason}")]
    Refused { reason: String, retryable: bool, retry_after: Option<Duration> },
    /// It took too long.
    #[error("the receiver of traces did not answer within {0:?}")]
    Timeout(Duration),
    /// The file cannot be written.
    #[error("the file of traces cannot be written: {0}")]
    File(#[source] std::io::Error),
}

impl ExportError {
    /// Whether the same may be sent again.
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
