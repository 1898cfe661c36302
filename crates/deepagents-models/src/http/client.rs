//! HTTP clients, created on first use and shared.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deepagents_core::model::ModelError;
use reqwest::Client;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

/// Connect timeout for requests to anything but models.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of idle connections per host. With many agents on HTTP/1.1, a connection is often opened just as
/// another becomes free; without a limit, two thirds more are kept than are ever used at the same time.
const MAX_IDLE_CONNECTIONS: usize = 32;

/// Distinguishes shared clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientKind {
    /// Whether the system's certificates are needed.
    pub(crate) tls: bool,
    pub(crate) connect: Duration,
    pub(crate) proxy: Option<String>,
}

/// HTTP clients shared by all models of a registry, so that they share connections.
#[derive(Clone, Default)]
pub struct ClientPool(Arc<Mutex<HashMap<ClientKind, Client>>>);

impl ClientPool {
    fn clients(&self) -> MutexGuard<'_, HashMap<ClientKind, Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the client of this kind.
    pub(crate) async fn get(&self, kind: &ClientKind) -> Result<Client, ModelError> {
        if let Some(client) = self.clients().get(kind) {
            return Ok(client.clone());
        }
        let made = build(kind).await?;
        Ok(self.clients().entry(kind.clone()).or_insert(made).clone())
    }
}

/// Returns a builder for an HTTP client for anything but models, such as web pages: with the system's trusted
/// certificates, no proxy, and no redirects.
///
/// # Errors
/// Returns an error if the certificates cannot be read.
pub async fn http_client() -> Result<reqwest::ClientBuilder, ModelError> {
    builder(true, CONNECT_TIMEOUT).await
}

/// Returns a builder for a client that follows no redirects: they would send a key to another host.
async fn builder(has_tls: bool, connect: Duration) -> Result<reqwest::ClientBuilder, ModelError> {
    let tls = if has_tls {
        // The system's certificates are read from files.
        let made = tokio::task::spawn_blocking(|| tls(true)).await;
        made.map_err(|_| ModelError::transport("creating the HTTP client was cancelled"))?
    } else {
        tls(false)
    };
    let builder = Client::builder().connect_timeout(connect).redirect(reqwest::redirect::Policy::none());
    let builder = builder.user_agent(concat!("deepagents/", env!("CARGO_PKG_VERSION"))).no_proxy();
    Ok(builder.tls_backend_preconfigured(tls.map_err(|error| unmade(&error))?))
}

async fn build(kind: &ClientKind) -> Result<Client, ModelError> {
    let mut builder = builder(kind.tls, kind.connect)
        .await?
        .tcp_keepalive(Duration::from_secs(60))
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

/// Creates a TLS configuration with the system's trusted certificates, or with none. Uses ring as a private crypto
/// provider instead of the process default, as it takes a fraction of the build time of others.
fn tls(system: bool) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder =
        if system { builder.with_platform_verifier()? } else { builder.with_root_certificates(RootCertStore::empty()) };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

impl std::fmt::Debug for ClientPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientPool").field("clients", &self.clients().len()).finish()
    }
}
