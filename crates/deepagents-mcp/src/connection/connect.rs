//! Connects to a server, in whichever of the two protocols it speaks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::Transport;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::Connection;
use super::calls::Calls;
use super::handler::Handler;
use super::probe::{Observations, Watched};
use crate::config::{ServerConfig, TransportConfig};
use crate::error::McpError;
use crate::http;
use crate::servers::Shared;
use crate::stdio::{self, Ending, StderrTail};
use crate::text;

/// How long to wait for the rest of a server's stderr output.
const STDERR_TIMEOUT: Duration = Duration::from_millis(300);

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Protocol {
    /// Up to 2025-11-25: `initialize`, sessions, requests from the server.
    Session,
    /// 2026-07-28: `server/discover`, self-contained requests.
    Stateless,
}

impl Protocol {
    /// Returns how to negotiate the protocol with a server whose protocol may be known.
    fn lifecycle(known: Option<Self>) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match known {
            Some(Self::Session) => ClientLifecycleMode::Initialize,
            Some(Self::Stateless) => ClientLifecycleMode::Discover { preferred_versions },
            None => {
                ClientLifecycleMode::Auto { preferred_versions, legacy_version: Some(ProtocolVersion::V_2025_11_25) }
            }
        }
    }
}

/// What to connect to.
pub(crate) struct Target<'a> {
    pub(crate) name: &'a str,
    pub(crate) config: &'a ServerConfig,
    pub(crate) shared: &'a Shared,
}

/// Connects to a server. `known` is its protocol, if known from an earlier connection.
pub(crate) async fn connect(target: &Target<'_>, known: Option<Protocol>) -> Result<Connection, McpError> {
    let seen = Arc::new(Observations::default());
    match attempt(target, known, seen.clone()).await {
        // The server may speak only the newer protocol and have answered the probe too late.
        Err(McpError::Connect { .. }) if known.is_none() && seen.late_answer.load(Ordering::Acquire) => {
            attempt(target, Some(Protocol::Stateless), Arc::default()).await
        }
        connected => connected,
    }
}

async fn attempt(
    target: &Target<'_>,
    known: Option<Protocol>,
    seen: Arc<Observations>,
) -> Result<Connection, McpError> {
    let making = PendingConnection { target, known, seen, tail: StderrTail::default() };
    match &target.config.transport {
        TransportConfig::Stdio(stdio) => {
            let started =
                stdio::start(target.name, stdio, target.shared, &making.tail).map_err(|error| match error {
                    McpError::Spawn { server, command, source } => {
                        let command = text::redact(&command, &target.config.secrets());
                        McpError::Spawn { server, command, source }
                    }
                    other => other,
                })?;
            let watched = making.watched(started.transport);
            making.finish(watched, Some((started.ending, started.drained))).await
        }
        TransportConfig::Http(config) => making.address(config).await,
    }
}

/// A connection being established.
pub(super) struct PendingConnection<'a> {
    pub(super) target: &'a Target<'a>,
    pub(super) known: Option<Protocol>,
    pub(super) seen: Arc<Observations>,
    pub(super) tail: StderrTail,
}

impl PendingConnection<'_> {
    pub(super) fn watched(&self, transport: impl Transport<RoleClient> + 'static) -> Watched {
        let is_program = matches!(self.target.config.transport, TransportConfig::Stdio(_));
        Watched::new(transport, self.seen.clone(), self.known.is_none(), is_program)
    }

    /// Performs the handshake.
    pub(super) async fn finish(
        self,
        watched: Watched,
        process: Option<(Ending, JoinHandle<()>)>,
    ) -> Result<Connection, McpError> {
        let calls = Arc::new(Calls::default());
        let handler = Arc::new(Handler::new(
            self.target.name,
            self.target.config.sampling,
            &self.target.shared.options,
            calls.clone(),
        ));
        let (ending, drained) = process.unzip();
        match handler.clone().serve_with_lifecycle(watched, Protocol::lifecycle(self.known)).await {
            Ok(service) => self.checked(service, handler, calls, ending),
            Err(error) => {
                if let Some(drained) = drained {
                    // The process has been killed, so its pipe reaches EOF.
                    let _ = timeout(STDERR_TIMEOUT, drained).await;
                }
                Err(self.failure(&error))
            }
        }
    }

    /// Checks the negotiated protocol version.
    fn checked(
        self,
        service: RunningService<RoleClient, Arc<Handler>>,
        handler: Arc<Handler>,
        calls: Arc<Calls>,
        ending: Option<Ending>,
    ) -> Result<Connection, McpError> {
        let info = service.peer().peer_info();
        let version = info.as_ref().map(|info| info.protocol_version.clone()).unwrap_or_default();
        if !ProtocolVersion::KNOWN_VERSIONS.contains(&version) {
            let shown = text::line(version.as_str(), 40);
            return Err(self.unusable(&format!("it speaks protocol version {shown}, which is not supported")));
        }
        let protocol = if version.has_initialize() { Protocol::Session } else { Protocol::Stateless };
        let connection = Connection {
            server: self.target.name.to_owned(),
            peer: service.peer().clone(),
            service: Mutex::new(Some(service)),
            handler,
            calls,
            seen: self.seen,
            listed: AtomicU64::new(0),
            listening: OnceLock::new(),
            tail: self.tail,
            ending,
            protocol,
            secrets: self.target.config.secrets(),
            cancels: TaskTracker::new(),
        };
        if protocol == Protocol::Stateless && connection.lists_change() {
            connection.listen(SubscriptionFilter::builder().tools_list_changed().build());
        }
        Ok(connection)
    }

    fn failure(&self, error: &ClientInitializeError) -> McpError {
        if let Some(wanted) = http::authorization(self.target.name, error) {
            return wanted;
        }
        if error.is_authorization_required() {
            return McpError::Unauthorized { server: self.target.name.to_owned() };
        }
        self.unusable(&handshake_error(error))
    }

    pub(super) fn unusable(&self, reason: &str) -> McpError {
        let secrets = self.target.config.secrets();
        let stderr = text::redact(&self.tail.last_line(), &secrets);
        McpError::Connect { server: self.target.name.to_owned(), reason: text::redact(reason, &secrets), stderr }
    }
}

/// Describes why the handshake failed.
fn handshake_error(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => handshake_error(fallback),
        ClientInitializeError::ConnectionClosed(_) => stdio::ENDED.to_owned(),
        ClientInitializeError::JsonRpcError(data) => format!("it refused: {}", text::line(&data.message, 300)),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<&str> = server_supported.iter().map(ProtocolVersion::as_str).collect();
            format!("it does not speak any supported protocol version, only {}", text::line(&versions.join(", "), 200))
        }
        ClientInitializeError::TransportError { error, .. } => http::reason(error.error.as_ref()),
        _ => "its answer to the handshake does not follow the protocol".to_owned(),
    }
}
