//! HTTP clients, made when first needed and shared.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deepagents_core::model::ModelError;
use reqwest::Client;

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
                .map_err(|_| ModelError::transport("the making of the HTTP client was cancelled"))??
        } else {
            build(kind)?
        };
        Ok(self.clients().entry(kind.clone()).or_insert(made).clone())
    }
}

fn build(kind: &ClientKind) -> Result<Client, ModelError> {
    // A redirect would carry the key to another host, so it is reported instead of followed.
    let mut builder = Client::builder()
        .connect_timeout(kind.connect)
        .tcp_keepalive(Duration::from_secs(60))
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("deepagents/", env!("CARGO_PKG_VERSION")))
        .no_proxy();
    if !kind.tls {
        builder = builder.tls_certs_only([]);
    }
    if let Some(proxy) = &kind.proxy {
        let proxy = reqwest::Proxy::all(proxy)
            .map_err(|_| ModelError::invalid("the proxy's address cannot be used; write it as http://host:port"))?;
        builder = builder.proxy(proxy);
    }
    builder.build().map_err(|error| ModelError::transport(format!("the HTTP client could not be made: {error}")))
}

impl std::fmt::Debug for ClientPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientPool").field("clients", &self.clients().len()).finish()
    }
}
