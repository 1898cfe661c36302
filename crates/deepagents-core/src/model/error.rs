//! Errors of model calls, classified by what a caller can do about them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The error of a model call.
///
/// ```
/// use deepagents_core::model::ModelError;
/// let error = ModelError::truncated("the stream ended early");
/// assert_eq!(error.kind(), "truncated");
/// ```
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelError {
    /// Too many requests; back off.
    #[error("rate limited: {0}")]
    RateLimited(ErrorInfo),
    /// The provider is overloaded or failing; back off.
    #[error("the provider is overloaded or failing: {0}")]
    Overloaded(ErrorInfo),
    /// The request exceeds the model's context window; compact the context.
    #[error("the request does not fit the model's context: {0}")]
    ContextLength(ErrorInfo),
    /// The API key is missing, wrong or lacks permission.
    #[error("not authorised: {0}")]
    Auth(ErrorInfo),
    /// The request is invalid; retrying does not help. The provider refused it, or it was never sent: see
    /// [`is_own_refusal`](ModelError::is_own_refusal).
    #[error("{}: {info}", refusal(.0), info = .0)]
    #[serde(rename = "invalid_request")]
    Invalid(ErrorInfo),
    /// The connection failed or timed out.
    #[error("could not reach the provider: {0}")]
    Transport(ErrorInfo),
    /// The answer was cut off.
    #[error("the answer broke off: {0}")]
    Truncated(ErrorInfo),
    /// The answer could not be parsed.
    #[error("the answer could not be understood: {0}")]
    Protocol(ErrorInfo),
}

/// Returns who refused a request.
fn refusal(info: &ErrorInfo) -> &'static str {
    if info.is_from_provider() { "the provider refused the request" } else { "invalid request" }
}

/// Details of a failed model call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// What happened, in the provider's words if available.
    pub message: String,
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's error code, such as `overloaded_error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How long the provider asks callers to wait.
    #[serde(rename = "retry_after_ms", with = "milliseconds", default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The provider's request id, for support requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl ErrorInfo {
    /// Returns whether a provider reported the error: it then has a status or a code.
    fn is_from_provider(&self) -> bool {
        self.status.is_some() || self.code.is_some()
    }
}

impl std::fmt::Display for ErrorInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        let mut notes = Vec::new();
        notes.extend(self.status.map(|s| format!("HTTP {s}")));
        notes.extend(self.code.clone());
        notes.extend(self.request_id.as_ref().map(|id| format!("request {id}")));
        if notes.is_empty() { Ok(()) } else { write!(f, " ({})", notes.join(", ")) }
    }
}

impl From<&str> for ErrorInfo {
    fn from(message: &str) -> Self {
        Self { message: message.to_owned(), ..Self::default() }
    }
}

impl From<String> for ErrorInfo {
    fn from(message: String) -> Self {
        Self { message, ..Self::default() }
    }
}

impl ModelError {
    /// Creates an error for a failed connection.
    pub fn transport(message: impl Into<ErrorInfo>) -> Self {
        Self::Transport(message.into())
    }

    /// Creates an error for an answer that was cut off.
    pub fn truncated(message: impl Into<ErrorInfo>) -> Self {
        Self::Truncated(message.into())
    }

    /// Creates an error for an answer that could not be parsed.
    pub fn protocol(message: impl Into<ErrorInfo>) -> Self {
        Self::Protocol(message.into())
    }

    /// Creates an error for an invalid request.
    pub fn invalid(message: impl Into<ErrorInfo>) -> Self {
        Self::Invalid(message.into())
    }

    /// Returns the details.
    pub fn info(&self) -> &ErrorInfo {
        match self {
            Self::RateLimited(i)
            | Self::Overloaded(i)
            | Self::ContextLength(i)
            | Self::Auth(i)
            | Self::Invalid(i)
            | Self::Transport(i)
            | Self::Truncated(i)
            | Self::Protocol(i) => i,
        }
    }

    /// Returns the details mutably.
    pub fn info_mut(&mut self) -> &mut ErrorInfo {
        match self {
            Self::RateLimited(i)
            | Self::Overloaded(i)
            | Self::ContextLength(i)
            | Self::Auth(i)
            | Self::Invalid(i)
            | Self::Transport(i)
            | Self::Truncated(i)
            | Self::Protocol(i) => i,
        }
    }

    /// Returns whether retrying the same request may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::RateLimited(_) | Self::Overloaded(_) | Self::Transport(_) | Self::Truncated(_))
    }

    /// Returns `true` if the request was refused here and not by the provider, which does not know of it or did not
    /// answer as a model's API does: for example, if there is nothing to send.
    ///
    /// ```
    /// use deepagents_core::model::{ErrorInfo, ModelError};
    /// assert!(ModelError::invalid("there is nothing to send").is_own_refusal());
    /// let refused = ErrorInfo { status: Some(400), ..ErrorInfo::from("unknown model") };
    /// assert!(!ModelError::Invalid(refused).is_own_refusal());
    /// ```
    pub fn is_own_refusal(&self) -> bool {
        matches!(self, Self::Invalid(info) if !info.is_from_provider())
    }

    /// Returns a stable name of the error class, for logs and wire formats.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::RateLimited(_) => "rate_limited",
            Self::Overloaded(_) => "overloaded",
            Self::ContextLength(_) => "context_length",
            Self::Auth(_) => "auth",
            Self::Invalid(_) => "invalid_request",
            Self::Transport(_) => "transport",
            Self::Truncated(_) => "truncated",
            Self::Protocol(_) => "protocol",
        }
    }
}

/// Serialises durations as numbers of milliseconds.
pub(super) mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(
        value: &(impl Copy + Into<Option<Duration>>),
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let duration: Option<Duration> = (*value).into();
        duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>, T: From<Duration>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        u64::deserialize(deserializer).map(|value| T::from(Duration::from_millis(value)))
    }
}
