//! Errors of web access.

use std::time::Duration;

/// An error from fetching a page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum FetchError {
    /// An option is invalid.
    #[error("{0}")]
    Option(String),
    /// The URL is invalid or of an unsupported kind.
    #[error("`{url}` cannot be fetched: {reason}")]
    BadUrl { url: String, reason: String },
    /// The host is not on the public internet.
    #[error("{host} is not on the public internet, so it is not fetched")]
    Private { host: String },
    /// There are too many redirects.
    #[error("it redirects more than {limit} times; the last address was {url}")]
    Redirects { url: String, limit: usize },
    /// The time limit was exceeded.
    #[error("{url} did not come within {limit:?}")]
    Timeout { url: String, limit: Duration },
    /// The server is unreachable, or the connection broke.
    #[error("{url} cannot be reached: {reason}")]
    Transport { url: String, reason: String },
    /// The server answered with an error status.
    #[error("{url} answers with HTTP status {status}")]
    Status { url: String, status: u16 },
    /// The content is not text.
    #[error("{url} is {kind}, which cannot be shown as text")]
    NotText { url: String, kind: String },
    /// The page is nested too deeply or too costly to parse.
    #[error("{url} is nested too deep, more than {limit} levels or in too many places, so it is not read")]
    TooDeep { url: String, limit: usize },
}

/// An error from a search.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The service is unreachable.
    #[error("the search service cannot be reached: {0}")]
    Transport(String),
    /// The service rejected the request.
    #[error("the search service answers with HTTP status {status}: {reason}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The reason that the service gives.
        reason: String,
    },
    /// The answer of the service is invalid.
    #[error("the answer of the search service cannot be read: {0}")]
    Answer(String),
}
