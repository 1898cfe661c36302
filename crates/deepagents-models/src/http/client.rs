//! HTTP clients, made when first needed and shared.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deepagents_core::model::ModelError;
use reqwest::Client;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

/// How long a connection may take for what is no model.
const CONNECT: Duration = Duration::from_secs(10);

/// How many connections to one host wait for a next request. Where many agents speak HTTP/1.1, a connection is often opened
/// while another one comes free; without a bound two thirds more are kept than ever work at the same time.
const IDLE: usize = 32;

/// What tells shared clients apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientKind {
    /// Whether the system's certificates are needed.
    pub(crate) tls: bool,
    pub(crate) connect: Duration,
    pub(crate) proxy: Option<String>,
}

/// The clients that all models of one registry share, so that they share connections.
#[derive(Clone, Default)]
pub struct ClientPool(Arc<Mutex<HashMap<ClientKind, Client>>>);

impl ClientPool {
    fn clients(&self) -> MutexGuard<'_, HashMap<ClientKind, Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client of this kind.
    pub(crate) async fn get(&self, kind: &ClientKind) -> Result<Client, ModelError> {
        if let Some(client) = self.clients().get(kind) {
            return Ok(client.clone());
        }
        let made = if kind.tls {
            // The system's certificates are read from files.
            let kind = kind.clone();
            tokio::task::spawn_blocking(move || build(&kind))
                .await
                .map_err(|_| ModelError::transport("creating the HTTP client was cancelled"))??
        } else {
            build(kind)?
        };
        Ok(self.clients().entry(kind.clone()).or_insert(made).clone())
    }
}

/// Begins an HTTP client for what is no model, such as pages of the web: with the certificates that the system trusts, no
/// proxy, and no redirects.
///
/// # Errors
/// When the certificates cannot be read.
pub async fn http_client() -> Result<reqwest::ClientBuilder, ModelError> {
    // They are read from files.
    let tls = tokio::task::spawn_blocking(|| tls(true)).await;
    let tls = tls.map_err(|_| ModelError::transport("creating the HTTP client was cancelled"))?;
    let builder = Client::builder().connect_timeout(CONNECT).redirect(reqwest::redirect::Policy::none());
    let builder = builder.user_agent(concat!("deepagents/", env!("CARGO_PKG_VERSION"))).no_proxy();
    Ok(builder.tls_backend_preconfigured(tls.map_err(|error| unmade(&error))?))
}

fn build(kind: &ClientKind) -> Result<Client, ModelError> {
    // A redirect would carry the key to another host, so it is reported instead of followed.
    let mut builder = Client::builder()
        .connect_timeout(kind.connect)
        .tcp_keepalive(Duration::from_secs(60))
        .pool_max_idle_per_host(IDLE)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("deepagents/", env!("CARGO_PKG_VERSION")))
        .no_proxy();
    builder = builder.tls_backend_preconfigured(tls(kind.tls).map_err(|error| unmade(&error))?);
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

/// TLS with the certificates that the system trusts, or none. The provider of cryptography is ours alone, not that of the
/// process: ring, which takes a fraction of the time of others to build.
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
