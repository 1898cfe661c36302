//! Converts failures below HTTP to errors with a hint at what to check.

use deepagents_core::model::ModelError;
use reqwest::Url;

/// Converts a failure below HTTP, with a hint at what to check.
pub(in crate::http) fn from_transport(error: &reqwest::Error, url: &Url, proxy: Option<&str>) -> ModelError {
    let parsed = |proxy: &str| {
        let whole = if proxy.contains("://") { proxy.to_owned() } else { format!("http://{proxy}") };
        Url::parse(&whole).ok()
    };
    let proxy = proxy.and_then(parsed).map(|proxy| authority(&proxy));
    let server = match &proxy {
        Some(proxy) if error.is_connect() => format!("{} through the proxy {proxy}", authority(url)),
        _ => authority(url),
    };
    let cause = root_cause(error);
    if let (true, Some(proxy)) = (cause.contains("proxy auth"), &proxy) {
        return ModelError::invalid(format!(
            "the proxy {proxy} requires a user name and a password; put them in its address: \
             http://NAME:PASSWORD@HOST:PORT"
        ));
    }
    let message = if error.is_timeout() && error.is_connect() {
        format!("could not connect to {server} in time; is the address right?")
    } else if error.is_timeout() {
        format!("{server} took too long")
    } else if error.is_connect() {
        let lower = cause.to_lowercase();
        let hint = if lower.contains("refused") {
            "; is the server running?"
        } else if lower.contains("lookup") || lower.contains("dns") || lower.contains("name or service") {
            "; is the host name right and is there a network?"
        } else {
            ""
        };
        format!("could not connect to {server}: {cause}{hint}")
    } else if error.is_builder() {
        return ModelError::invalid(format!("the request to {server} could not be made: {cause}"));
    } else {
        format!("the connection to {server} was lost: {cause}")
    };
    ModelError::transport(message)
}

/// Returns `scheme://host:port`, without path and credentials.
pub(in crate::http) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port_or_known_default()
        .map_or_else(|| format!("{}://{host}", url.scheme()), |port| format!("{}://{host}:{port}", url.scheme()))
}

fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
        Some(std::io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        Some(std::io::ErrorKind::ConnectionReset) => "connection reset by the server".to_owned(),
        _ => cause.to_string(),
    }
}
