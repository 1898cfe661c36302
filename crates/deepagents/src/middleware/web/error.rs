//! Why the web does not answer.

use std::time::Duration;

/// Why a page cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum FetchError {
    /// An option makes no sense.
    #[error("{0}")]
    Option(String),
    /// The address is none, or of a kind that is not fetched.
    #[error("`{url}` cannot be fetched: {reason}")]
    BadUrl { url: String, reason: String },
    /// The address is not one of the internet.
    #[error("{host} is not on the public internet, so it is not fetched")]
    Private { host: String },
    /// One redirect follows the other.
    #[error("it redirects more than {limit} times; the last address was {url}")]
    Redirects { url: String, limit: usize },
    /// It took too long.
    #[error("{url} did not come within {limit:?}")]
    Timeout { url: String, limit: Duration },
    /// The server cannot be reached, or the connection broke.
    #[error("{url} cannot be reached: {reason}")]
    Transport { url: String, reason: String },
    /// The server answers with an error.
    #[error("{url} answers with HTTP status {status}")]
    Status { url: String, status: u16 },
    /// It is no text.
    #[error("{url} is {kind}, which cannot be shown as text")]
    NotText { url: String, kind: String },
    /// It is built to be hard to read.
    #[error("{url} is nested too deep, more than {limit} levels or in too many places, so it is not read")]
    TooDeep { url: String, limit: usize },
}

/// Why a search cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The service cannot be reached.
    #[error("the search service cannot be reached: {0}")]
    Transport(String),
    /// The service refuses.
    #[error("the search service answers with HTTP status {status}: {reason}")]
    Refused {
        /// The status.
        status: u16,
        /// In its words.
        reason: String,
    },
    /// What it answers is none of its answers.
    #[error("the answer of the search service cannot be read: {0}")]
    Answer(String),
}
