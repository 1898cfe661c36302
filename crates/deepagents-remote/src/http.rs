//! Requests to one server, with its headers, limits on responses, and retries.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Method, Response, Url};
use rustls_platform_verifier::BuilderVerifierExt;
use serde_json::Value;
use tokio::time::Instant;

use crate::config::RemoteConfig;
use crate::error::RemoteError;

/// Time limit for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the headers of a response, and for each chunk of one that is not a stream.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for the whole text of an error, which only explains the status.
const ERROR_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a stream may be silent before it is reopened. Servers send something about every 15 seconds.
const STREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum bytes of a response.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// Maximum characters of a server's error message.
const MAX_DETAIL_CHARS: usize = 300;
/// Maximum number of redirects per request.
const MAX_REDIRECTS: usize = 5;
/// The first and the longest delay between two attempts.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

/// The HTTP client for a server.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    client: reqwest::Client,
    base: Url,
    headers: HeaderMap,
    pub(crate) host: String,
    pub(crate) retry_timeout: Duration,
}

/// The failure of a single attempt.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server is unreachable or temporarily unavailable, so the request can be retried. It is unknown whether it
    /// was carried out.
    Away { reason: String, after: Option<Duration> },
    /// A definitive response.
    Final(RemoteError),
}

impl Failure {
    /// Returns the status with which a request was refused.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Final(RemoteError::Refused { status, .. }) => Some(*status),
            _ => None,
        }
    }
}

impl Http {
    pub(crate) fn new(config: &RemoteConfig) -> Result<Self, RemoteError> {
        let client = client().map_err(RemoteError::Config)?;
        Ok(Self {
            client,
            base: config.url.clone(),
            headers: config.headers.clone(),
            host: config.origin(),
            retry_timeout: config.retry_timeout,
        })
    }

    /// Returns a copy with an additional header.
    pub(crate) fn with_header(&self, name: &'static str, value: &'static str) -> Self {
        let mut headers = self.headers.clone();
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        Self { headers, ..self.clone() }
    }

    /// Resolves a path below the server's address.
    pub(crate) fn url(&self, path: &str) -> Result<Url, RemoteError> {
        self.base.join(path).map_err(|error| RemoteError::Config(error.to_string()))
    }

    /// Returns the server's own address, without a trailing slash.
    pub(crate) fn base(&self) -> Url {
        let mut base = self.base.clone();
        let path = base.path().trim_end_matches('/').to_owned();
        base.set_path(&path);
        base
    }

    /// Creates the error for a response that violates the protocol.
    pub(crate) fn unreadable(&self, what: &'static str, reason: &dyn Display) -> RemoteError {
        RemoteError::Answer { host: self.host.clone(), what, reason: reason.to_string() }
    }

    /// Sends a request and returns when the response's headers arrive.
    async fn send(
        &self,
        what: &'static str,
        method: Method,
        url: Url,
        body: Option<&Value>,
        more: &[(&'static str, &str)],
    ) -> Result<Response, Failure> {
        let mut request = self.client.request(method, url).headers(self.headers.clone());
        if let Some(body) = body {
            request = request.json(body);
        }
        for (name, value) in more {
            request = request.header(*name, *value);
        }
        let sent = tokio::time::timeout(RESPONSE_TIMEOUT, request.send()).await;
        let response = match sent {
            Err(_) => return Err(Failure::Away { reason: "no answer".to_owned(), after: None }),
            Ok(Err(error)) => return Err(Failure::Away { reason: reason(error), after: None }),
            Ok(Ok(response)) => response,
        };
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let after = response.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.trim().parse().ok());
        let text = tokio::time::timeout(ERROR_TIMEOUT, self.text(what, response)).await;
        let detail = text.ok().and_then(Result::ok).map(|text| detail(&text)).unwrap_or_default();
        if status.is_server_error() && status.as_u16() != 501 || matches!(status.as_u16(), 408 | 425 | 429) {
            let reason = format!("{} {detail}", status.as_u16());
            return Err(Failure::Away { reason: reason.trim().to_owned(), after: after.map(Duration::from_secs) });
        }
        let host = self.host.clone();
        Err(Failure::Final(RemoteError::Refused { host, what, status: status.as_u16(), detail }))
    }

    /// Reads the whole text of a response.
    async fn text(&self, what: &'static str, mut response: Response) -> Result<String, Failure> {
        let mut bytes = Vec::new();
        loop {
            let next = tokio::time::timeout(RESPONSE_TIMEOUT, response.chunk()).await;
            match next {
                Ok(Ok(Some(more))) => bytes.extend_from_slice(&more),
                Ok(Ok(None)) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                Ok(Err(error)) => return Err(Failure::Away { reason: reason(error), after: None }),
                Err(_) => {
                    return Err(Failure::Away { reason: "the answer did not end in time".to_owned(), after: None });
                }
            }
            if bytes.len() > MAX_RESPONSE_BYTES {
                return Err(Failure::Final(self.unreadable(what, &format!("more than {MAX_RESPONSE_BYTES} bytes"))));
            }
        }
    }

    /// Sends a request that returns JSON. An empty response is null.
    pub(crate) async fn json(
        &self,
        what: &'static str,
        method: Method,
        url: Url,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let response = self.send(what, method, url, body, &[]).await?;
        let text = self.text(what, response).await?;
        if text.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text).map_err(|error| Failure::Final(self.unreadable(what, &error)))
    }

    /// Sends a request that is safe to repeat, with retries until the time limit.
    pub(crate) async fn send_with_retries(
        &self,
        what: &'static str,
        method: Method,
        url: Url,
        body: Option<&Value>,
    ) -> Result<Value, RemoteError> {
        let mut tries = self.tries();
        loop {
            match self.json(what, method.clone(), url.clone(), body).await {
                Ok(value) => return Ok(value),
                Err(failure) => tries.again(failure).await?,
            }
        }
    }

    /// Opens a stream of events.
    pub(crate) async fn stream(
        &self,
        what: &'static str,
        method: Method,
        url: Url,
        body: Option<&Value>,
        last: Option<&str>,
    ) -> Result<EventBody, Failure> {
        let accept = ("accept", "text/event-stream");
        let more = last.map_or_else(|| vec![accept], |last| vec![accept, ("last-event-id", last)]);
        let response = self.send(what, method, url, body, &more).await?;
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            let text = self.text(what, response).await?;
            return Ok(EventBody { response: None, whole: Some(text) });
        }
        Ok(EventBody { response: Some(response), whole: None })
    }

    /// Starts a sequence of attempts.
    pub(crate) fn tries(&self) -> Tries<'_> {
        Tries { http: self, since: Instant::now(), wait: RETRY_DELAYS.0 }
    }
}

/// A streamed body.
#[derive(Debug)]
pub(crate) struct EventBody {
    response: Option<Response>,
    /// The whole text of a response that is not a stream.
    pub(crate) whole: Option<String>,
}

impl EventBody {
    /// Returns the next bytes, or `None` if the stream ended, broke or fell silent.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        let response = self.response.as_mut()?;
        match tokio::time::timeout(STREAM_IDLE_TIMEOUT, response.chunk()).await {
            Ok(Ok(Some(bytes))) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}

/// A sequence of attempts.
#[derive(Debug)]
pub(crate) struct Tries<'a> {
    http: &'a Http,
    since: Instant,
    wait: Duration,
}

impl Tries<'_> {
    /// Waits before the next attempt. Returns an error if retrying is no use or the time limit would pass.
    pub(crate) async fn again(&mut self, failure: Failure) -> Result<(), RemoteError> {
        let (reason, after) = match failure {
            Failure::Final(error) => return Err(error),
            Failure::Away { reason, after } => (reason, after),
        };
        let waited = self.since.elapsed();
        let jitter = Duration::from_millis(u64::from(waited.subsec_millis() % 50));
        let wait = after.unwrap_or(self.wait).max(self.wait).saturating_add(jitter);
        if waited.saturating_add(wait) > self.http.retry_timeout {
            return Err(RemoteError::Unreachable { host: self.http.host.clone(), reason, waited });
        }
        tokio::time::sleep(wait).await;
        self.wait = (self.wait * 2).min(RETRY_DELAYS.1);
        Ok(())
    }

    /// Restarts the time limit after a success.
    pub(crate) fn progressed(&mut self) {
        (self.since, self.wait) = (Instant::now(), RETRY_DELAYS.0);
    }
}

/// The first and the longest delay between two requests to a server that has nothing new.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Growing pauses between requests for what is not there yet.
#[derive(Debug)]
pub(crate) struct Polling(Duration);

impl Polling {
    pub(crate) fn new() -> Self {
        Self(POLL_INTERVALS.0)
    }

    /// Waits before the next request.
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(POLL_INTERVALS.1);
    }
}

/// Describes the failure of a request, without its address, which may contain secrets.
fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = vec![error.to_string()];
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        let text = inner.to_string();
        if words.last().is_none_or(|last| !last.contains(&text)) {
            words.push(text);
        }
        cause = inner.source();
    }
    cut(&words.join(": "))
}

/// Returns a server's error message in one line.
fn detail(text: &str) -> String {
    let read: Option<Value> = serde_json::from_str(text).ok();
    let said = read.as_ref().and_then(|value| {
        let keys = ["detail", "message", "error"];
        keys.iter().find_map(|key| value.get(key)).or(Some(value))
    });
    match said {
        Some(Value::String(text)) => cut(text),
        Some(other) => cut(&other.to_string()),
        None => cut(text),
    }
}

/// Returns the beginning of a text in one line.
pub(crate) fn cut(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_DETAIL_CHARS) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

/// Builds an HTTP client that trusts the system's certificates. Redirects are followed only within the same origin, and
/// only if they preserve the request, because another host must not get the headers.
fn client() -> Result<reqwest::Client, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| error.to_string())?;
    let follow = |attempt: Attempt<'_>| {
        let same = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        let keeps = matches!(attempt.status().as_u16(), 307 | 308);
        if same && keeps && attempt.previous().len() <= MAX_REDIRECTS { attempt.follow() } else { attempt.stop() }
    };
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls.with_no_client_auth())
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(Policy::custom(follow))
        .user_agent(concat!("deepagents/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| error.to_string())
}
