//! Connects to an address, over either of the two HTTP transports.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::Connection;
use super::connect::{PendingConnection, Protocol};
use super::probe::{Observations, Watched};
use crate::auth;
use crate::config::{HttpConfig, HttpTransport};
use crate::error::McpError;
use crate::http::{self, AnswersIn, OpenError, Requests, SseTransport, Streams};
use crate::stdio::StderrTail;

/// How long a server that refused `initialize` may take to open an event stream.
const FALLBACK_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the event stream was not opened.
enum Unopened {
    /// The address does not speak this transport.
    NotSpoken(String),
    Failed(McpError),
}

impl PendingConnection<'_> {
    /// Connects to an address. Falls back to the other transport if the address does not speak the configured one. An
    /// address older than streamable HTTP is recognised by how it refuses `initialize`.
    pub(super) async fn address(self, config: &HttpConfig) -> Result<Connection, McpError> {
        let older = PendingConnection {
            target: self.target,
            // No server with this transport speaks the protocol without sessions.
            known: Some(Protocol::Session),
            seen: Arc::new(Observations::default()),
            tail: StderrTail::default(),
        };
        match config.transport {
            HttpTransport::Streamable => {
                let seen = self.seen.clone();
                let error = match self.streamable(config).await {
                    Err(error @ McpError::Connect { .. }) if seen.initialize_refused.load(Ordering::Acquire) => error,
                    connected => return connected,
                };
                match tokio::time::timeout(FALLBACK_TIMEOUT, older.stream(config)).await {
                    Ok(Ok(watched)) => older.finish(watched, None).await,
                    Ok(Err(Unopened::Failed(McpError::Connect { reason, .. }))) => {
                        let McpError::Connect { reason: first, .. } = &error else { return Err(error) };
                        Err(older.unusable(&format!("{first}; over HTTP+SSE: {reason}")))
                    }
                    // A login is needed.
                    Ok(Err(Unopened::Failed(needed))) => Err(needed),
                    Ok(Err(Unopened::NotSpoken(_))) | Err(_) => Err(error),
                }
            }
            HttpTransport::Sse => match older.stream(config).await {
                Ok(watched) => older.finish(watched, None).await,
                Err(Unopened::NotSpoken(reason)) => match self.streamable(config).await {
                    Err(McpError::Connect { reason: streamable, .. }) => {
                        let words = "it speaks neither HTTP+SSE nor streamable HTTP";
                        Err(older.unusable(&format!("{words}: {reason}; {streamable}")))
                    }
                    connected => connected,
                },
                Err(Unopened::Failed(error)) => Err(error),
            },
        }
    }

    async fn streamable(self, config: &HttpConfig) -> Result<Connection, McpError> {
        let (requests, config) = self.requests(config, AnswersIn::Response).await?;
        let watched = self.watched(StreamableHttpClientTransport::with_client(requests, config));
        self.finish(watched, None).await
    }

    /// Opens the event stream of HTTP+SSE.
    async fn stream(&self, config: &HttpConfig) -> Result<Watched, Unopened> {
        let (requests, config) = self.requests(config, AnswersIn::Stream).await.map_err(Unopened::Failed)?;
        let opened = SseTransport::open(requests, config).await.map(|opened| self.watched(opened));
        opened.map_err(|error| match &error {
            OpenError::Refused(refused) => match http::authorization(self.target.name, refused) {
                Some(wanted) => Unopened::Failed(wanted),
                None if http::streams_no_events(refused) => Unopened::NotSpoken(http::reason(refused)),
                None => Unopened::Failed(self.unusable(&http::reason(refused))),
            },
            OpenError::NoEndpoint => Unopened::NotSpoken(error.to_string()),
            OpenError::Origin(_) => Unopened::Failed(self.unusable(&error.to_string())),
        })
    }

    /// Returns the client of the connection, with its login, and the configuration of the transport.
    async fn requests(
        &self,
        config: &HttpConfig,
        answers_in: AnswersIn,
    ) -> Result<(Requests, StreamableHttpClientTransportConfig), McpError> {
        let failed = |reason| McpError::Connect { server: self.target.name.to_owned(), reason, stderr: String::new() };
        let url = reqwest::Url::parse(&config.url).map_err(|error| failed(format!("its address is none: {error}")))?;
        let http = self.target.shared.http.to(&url).map_err(failed)?;
        let made = http::transport_config(config).map_err(failed)?;
        // Configured headers take precedence over a login.
        let is_configured =
            made.auth_header.is_some() || made.custom_headers.contains_key(&::http::header::AUTHORIZATION);
        let tokens = match is_configured {
            true => None,
            false => auth::tokens(self.target.name, config, self.target.shared).await?,
        };
        let (tokens, seen, probes) = (tokens.map(Arc::new), self.seen.clone(), self.known.is_none());
        Ok((Requests { http, tokens, seen, answers_in, probes, streams: Streams::default() }, made))
    }
}
