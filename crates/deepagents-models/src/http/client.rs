//! HTTP clients, created on first use and shared.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use deepagents_core::model::ModelError;
use reqwest::{Client, Url};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::sync::OnceCell;

use super::error::authority;
use super::hosts::{Host, MAX_REQUESTS, REQUESTS_PER_CONNECTION};

/// Connect timeout for requests to anything but models.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of idle connections per host and client; a client has no more over TLS.
const MAX_IDLE_CONNECTIONS: usize = REQUESTS_PER_CONNECTION;

/// When an HTTP/2 connection with open requests is checked, and how long the host has to respond. Otherwise requests to
/// a host that is gone would wait for their timeouts, and the next ones too, on the same connection.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Distinguishes shared clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientKind {
    /// Whether the system's certificates are needed.
    pub(crate) tls: bool,
    pub(crate) connect: Duration,
    pub(crate) proxy: Option<String>,
}

/// HTTP clients shared by all models of a registry, so that they share connections.
///
/// At most 1,000 requests of models are sent to a host at once; others wait for their turn, before their timeouts begin,
/// except token counts and lists of models, whose timeouts include the wait. A call counts until its stream has ended or
/// is dropped. So with a small limit, do not make another call to the same host while you read a stream. Over HTTP/2, a
/// connection carries at most 100 requests.
/// [`Registry::pool`](crate::Registry::pool) sets the pool of all models.
///
/// ```
/// use deepagents_models::{ClientPool, ModelConfig};
/// let pool = ClientPool::with_max_requests(4_000);
/// let config = ModelConfig { pool, ..ModelConfig::default() };
/// ```
#[derive(Clone)]
pub struct ClientPool(Arc<Shared>);

struct Shared {
    max_requests: usize,
    /// Whether nobody has chosen its limit.
    is_default: bool,
    /// With the system's certificates, which are read from files.
    tls: OnceCell<ClientConfig>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clients: HashMap<ClientKind, Vec<Option<Client>>>,
    hosts: HashMap<(ClientKind, String), Weak<Host>>,
}

impl ClientPool {
    /// Creates a pool that sends at most this many requests of models to a host at once, at least 1. Over HTTP/1.1, each
    /// needs a connection of its own, with some 37 kB of memory, a file descriptor and a port.
    pub fn with_max_requests(limit: usize) -> Self {
        Self::new(limit, false)
    }

    fn new(max_requests: usize, is_default: bool) -> Self {
        Self(Arc::new(Shared { max_requests, is_default, tls: OnceCell::new(), state: Mutex::default() }))
    }

    /// Returns `true` if nobody has chosen its limit, so that a pool that was chosen is used instead.
    pub(crate) fn is_default(&self) -> bool {
        self.0.is_default
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is known of the host of a URL.
    pub(super) fn host(&self, kind: &ClientKind, url: &Url) -> Arc<Host> {
        let mut state = self.state();
        let key = (kind.clone(), authority(url));
        if let Some(host) = state.hosts.get(&key).and_then(Weak::upgrade) {
            return host;
        }
        state.hosts.retain(|_, host| host.strong_count() > 0);
        // Which protocol a host speaks is known once it answers, and many requests may come before. Only over TLS, it
        // may be HTTP/2.
        let per_client = if url.scheme() == "https" { REQUESTS_PER_CONNECTION } else { usize::MAX };
        let host = Arc::new(Host::new(self.0.max_requests, per_client));
        state.hosts.insert(key, Arc::downgrade(&host));
        host
    }

    /// Returns the client of this kind with this number.
    pub(super) async fn get(&self, kind: &ClientKind, number: usize) -> Result<Client, ModelError> {
        let known = || self.state().clients.get(kind)?.get(number)?.clone();
        if let Some(client) = known() {
            return Ok(client);
        }
        let tls = if kind.tls { self.0.tls.get_or_try_init(system_tls).await?.clone() } else { tls(false)? };
        // Another call may have built it meanwhile.
        if let Some(client) = known() {
            return Ok(client);
        }
        let made = build(kind, tls)?;
        let mut state = self.state();
        let clients = state.clients.entry(kind.clone()).or_default();
        if clients.len() <= number {
            clients.resize(number + 1, None);
        }
        Ok(match clients.get_mut(number) {
            Some(client) => client.get_or_insert(made).clone(),
            None => made,
        })
    }
}

impl Default for ClientPool {
    fn default() -> Self {
        Self::new(MAX_REQUESTS, true)
    }
}

/// Returns a builder for an HTTP client for anything but models, such as web pages: with the system's trusted
/// certificates, no proxy, and no redirects.
///
/// # Errors
/// Returns an error if the certificates cannot be read.
pub async fn http_client() -> Result<reqwest::ClientBuilder, ModelError> {
    Ok(builder(system_tls().await?, CONNECT_TIMEOUT))
}

/// Returns a builder for a client that follows no redirects: they would send a key to another host.
fn builder(tls: ClientConfig, connect: Duration) -> reqwest::ClientBuilder {
    let builder = Client::builder().connect_timeout(connect).redirect(reqwest::redirect::Policy::none());
    let builder = builder.user_agent(concat!("deepagents/", env!("CARGO_PKG_VERSION"))).no_proxy();
    builder.tls_backend_preconfigured(tls)
}

fn build(kind: &ClientKind, tls: ClientConfig) -> Result<Client, ModelError> {
    let mut builder = builder(tls, kind.connect)
        .tcp_keepalive(Duration::from_secs(60))
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_INTERVAL)
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS);
    if let Some(proxy) = &kind.proxy {
        if let Some((scheme, _)) = proxy.split_once("://").filter(|(scheme, _)| !matches!(*scheme, "http" | "https")) {
            return Err(ModelError::invalid(format!(
                "`{scheme}` proxies are not supported; write the address of a proxy as http://host:port"
            )));
        }
        let proxy = reqwest::Proxy::all(proxy)
            .map_err(|_| ModelError::invalid("the proxy's address cannot be used; write it as http://host:port"))?;
        builder = builder.proxy(proxy);
    }
    builder.build().map_err(|error| unmade(&error))
}

fn unmade(error: &dyn std::fmt::Display) -> ModelError {
    ModelError::transport(format!("the HTTP client could not be created: {error}"))
}

/// Creates a TLS configuration with the system's trusted certificates, which are read from files.
async fn system_tls() -> Result<ClientConfig, ModelError> {
    let made = tokio::task::spawn_blocking(|| tls(true)).await;
    made.map_err(|_| ModelError::transport("creating the HTTP client was cancelled"))?
}

/// Creates a TLS configuration with the system's trusted certificates, or with none. Uses ring as a private crypto
/// provider instead of the process default, as it takes a fraction of the build time of others.
fn tls(system: bool) -> Result<ClientConfig, ModelError> {
    let made = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = match system {
            true => builder.with_platform_verifier()?,
            false => builder.with_root_certificates(RootCertStore::empty()),
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    };
    made().map_err(|error: rustls::Error| unmade(&error))
}

impl std::fmt::Debug for ClientPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientPool").field("max_requests", &self.0.max_requests).finish_non_exhaustive()
    }
}
