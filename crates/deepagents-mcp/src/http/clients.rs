//! HTTP clients for MCP servers and their issuers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use rustls_platform_verifier::BuilderVerifierExt;

use super::is_here;

/// Timeout for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of redirects followed per request.
const MAX_REDIRECTS: usize = 5;

/// The clients of all requests, created when they are needed, so that root certificates are loaded at most once each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients(Arc<ByReach>);

#[derive(Debug, Default)]
struct ByReach {
    /// For addresses of this machine, which no proxy is between.
    here: OnceLock<reqwest::Client>,
    /// For all others, through the system's proxy.
    elsewhere: OnceLock<reqwest::Client>,
}

impl Clients {
    /// Returns the client for requests to an address.
    pub(crate) fn to(&self, url: &reqwest::Url) -> Result<reqwest::Client, String> {
        let is_here = is_here(url);
        let known = if is_here { &self.0.here } else { &self.0.elsewhere };
        if let Some(client) = known.get() {
            return Ok(client.clone());
        }
        let client = client(!is_here)?;
        // If two threads create one concurrently, either will do.
        Ok(known.get_or_init(|| client).clone())
    }
}

/// Creates an HTTP client that trusts the system's certificates. Redirects are followed only within the same origin, so
/// that another host does not get the headers, and only if they preserve the request.
fn client(through_proxy: bool) -> Result<reqwest::Client, String> {
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
    let builder = reqwest::Client::builder();
    let builder = if through_proxy { builder } else { builder.no_proxy() };
    builder
        .tls_backend_preconfigured(tls.with_no_client_auth())
        .connect_timeout(CONNECT_TIMEOUT)
        // A connection whose last response was not read to the end would stall the next request.
        .pool_max_idle_per_host(0)
        .redirect(Policy::custom(follow))
        .user_agent(concat!("deepagents/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| error.to_string())
}
