//! The HTTP client of exporters.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use super::{Endpoint, ExportError, Protocol};

/// Time limit for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Parses the address of a receiver.
pub(super) fn address(endpoint: &Endpoint) -> Result<Url, ExportError> {
    let bad = |reason: String| ExportError::BadUrl { url: endpoint.url.clone(), reason };
    let url = Url::parse(&endpoint.url).map_err(|error| bad(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("it must begin with http:// or https://".to_owned()));
    }
    Ok(url)
}

/// Returns the headers of each request.
pub(super) fn headers(endpoint: &Endpoint, content_type: &'static str) -> Result<HeaderMap, ExportError> {
    let mut headers = HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in &endpoint.headers {
        let bad = || ExportError::BadHeader { name: name.clone() };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// Builds a client that follows no redirects, which would send credentials to another host.
pub(super) fn client(endpoint: &Endpoint, url: &Url) -> Result<Client, ExportError> {
    let failed = |error: &dyn std::fmt::Display| ExportError::Client(error.to_string());
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| failed(&error))?;
    let proxy_tls = endpoint.proxy.as_deref().is_some_and(|proxy| proxy.starts_with("https:"));
    let builder = if url.scheme() == "https" || proxy_tls {
        builder.with_platform_verifier().map_err(|error| failed(&error))?
    } else {
        builder.with_root_certificates(RootCertStore::empty())
    };
    let mut tls = builder.with_no_client_auth();
    let grpc = endpoint.protocol == Protocol::Grpc;
    tls.alpn_protocols = if grpc { vec![b"h2".to_vec()] } else { vec![b"h2".to_vec(), b"http/1.1".to_vec()] };
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("deepagents/", env!("CARGO_PKG_VERSION")))
        .no_proxy();
    if grpc {
        builder = builder.http2_prior_knowledge();
    }
    if let Some(proxy) = &endpoint.proxy {
        builder = builder.proxy(reqwest::Proxy::all(proxy).map_err(|error| failed(&error))?);
    }
    builder.build().map_err(|error| failed(&error))
}

/// Returns the origin of an address, without parts that may be secret.
pub(super) fn place(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Converts an error below HTTP, without parts of the address that may be secret.
pub(super) fn transport(error: reqwest::Error) -> ExportError {
    let at = error.url().map(place);
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    ExportError::Transport(match at {
        Some(at) => format!("{at}: {cause}"),
        None => cause.to_string(),
    })
}
