//! The address of a remote agent, and how it is called.

use std::fmt;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::error::RemoteError;

/// The default time limit for reaching a server.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The protocol of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Protocol {
    /// The API of the LangGraph server, which `deepagents serve` also has; it includes the Agent Protocol.
    #[default]
    LangGraph,
    /// Agent2Agent, versions 0.3 and 1.0, JSON-RPC over HTTP.
    A2a,
}

/// The address of a remote agent, and how it is called.
///
/// ```
/// use std::time::Duration;
/// use deepagents_remote::RemoteConfig;
/// let config = RemoteConfig::langgraph("https://agents.example.com", "researcher")?
///     .header("x-api-key", "secret")?
///     .deadline(Duration::from_secs(900));
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), deepagents_remote::RemoteError>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct RemoteConfig {
    pub(crate) url: Url,
    pub(crate) assistant: Option<String>,
    pub(crate) protocol: Protocol,
    pub(crate) headers: HeaderMap,
    pub(crate) retry_timeout: Duration,
    pub(crate) deadline: Option<Duration>,
}

fn refused(why: impl Into<String>) -> RemoteError {
    RemoteError::Config(why.into())
}

impl RemoteConfig {
    /// Creates a configuration from the address of a server, its protocol, and the name of one of its agents. An A2A
    /// server whose address is that of a single agent needs no name.
    ///
    /// # Errors
    /// Returns [`RemoteError::Config`] if the address is not an HTTP address, or contains credentials, a query or a
    /// fragment, or if a LangGraph agent has no name.
    pub fn new(url: &str, protocol: Protocol, assistant: Option<&str>) -> Result<Self, RemoteError> {
        let mut parsed =
            Url::parse(url.trim()).map_err(|error| refused(format!("`url` is not a valid address: {error}")))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err(refused("`url` must begin with http:// or https:// and name a host"));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(refused("`url` contains a user name or a password; give them as a header"));
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(refused("`url` contains a query or a fragment; leave them out"));
        }
        if !parsed.path().ends_with('/') {
            let path = format!("{}/", parsed.path());
            parsed.set_path(&path);
        }
        let assistant = assistant.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        if assistant.is_none() && protocol == Protocol::LangGraph {
            return Err(refused("`graph_id` is missing: say which agent of the server is meant"));
        }
        let headers = HeaderMap::new();
        Ok(Self { url: parsed, assistant, protocol, headers, retry_timeout: DEFAULT_TIMEOUT, deadline: None })
    }

    /// Creates a configuration for an agent of a LangGraph server, of `deepagents serve`, or of an Agent Protocol
    /// server, from the address of the server, and the graph or the assistant's id.
    ///
    /// # Errors
    /// See [`new`](Self::new).
    pub fn langgraph(url: &str, assistant: &str) -> Result<Self, RemoteError> {
        Self::new(url, Protocol::LangGraph, Some(assistant))
    }

    /// Creates a configuration for an A2A agent from the address below which its card is, at
    /// `.well-known/agent-card.json`, or from that of its JSON-RPC endpoint.
    ///
    /// # Errors
    /// See [`new`](Self::new).
    pub fn a2a(url: &str) -> Result<Self, RemoteError> {
        Self::new(url, Protocol::A2a, None)
    }

    /// Adds a header that is sent with every request to this server, and to no other.
    ///
    /// # Errors
    /// Returns [`RemoteError::Config`] if the header is invalid. The error does not contain the value.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, RemoteError> {
        let header: HeaderName = name.parse().map_err(|_| refused(format!("`{name}` is not a valid header name")))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| refused(format!("the value of the header `{name}` cannot be sent")))?;
        value.set_sensitive(true);
        self.headers.insert(header, value);
        Ok(self)
    }

    /// Sets how long to retry a server that is unreachable or temporarily unavailable; 60 seconds by default.
    #[must_use]
    pub fn retry_timeout(mut self, timeout: Duration) -> Self {
        self.retry_timeout = timeout;
        self
    }

    /// Sets a time limit for a piece of work in this process; unlimited by default. When it passes, the remote run is
    /// cancelled.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Returns the server's scheme, host and port.
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

impl fmt::Debug for RemoteConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("RemoteConfig")
            .field("url", &self.url.as_str())
            .field("assistant", &self.assistant)
            .field("protocol", &self.protocol)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}
