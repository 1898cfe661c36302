//! Servers reached over HTTP.

mod answers;
mod clients;
mod events;
mod requests;
mod sse;

use std::collections::HashMap;
use std::error::Error as StdError;

use http::{HeaderName, HeaderValue};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpClientTransportConfig,
    StreamableHttpError,
};

pub(crate) use answers::challenges;
pub(crate) use clients::Clients;
pub(crate) use events::Streams;
pub(crate) use requests::{AnswersIn, Requests, streams_no_events};
pub(crate) use sse::{OpenError, SseTransport};

use crate::config::HttpConfig;
use crate::error::McpError;

/// Why a request has no response.
pub(crate) type Failure = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// Prefix of the error for a status other than 2xx.
const STATUS: &str = "HTTP status";

/// Whether secrets may be sent to a URL and a person may be sent there: `https`, or `http` to this machine.
pub(crate) fn is_safe(address: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(address) else { return false };
    url.scheme() == "https" || url.scheme() == "http" && is_here(&url)
}

/// Whether a URL is one of this machine.
pub(crate) fn is_here(url: &reqwest::Url) -> bool {
    matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

/// Whether a URL is that of a web page.
pub(crate) fn is_page(address: &str) -> bool {
    reqwest::Url::parse(address).is_ok_and(|url| matches!(url.scheme(), "https" | "http") && url.has_host())
}

/// Converts the configuration to that of the transport, with the headers to send with every request.
pub(crate) fn transport_config(config: &HttpConfig) -> Result<StreamableHttpClientTransportConfig, String> {
    let mut headers = HashMap::new();
    let mut made = StreamableHttpClientTransportConfig::with_uri(config.url.as_str());
    for (name, value) in &config.headers {
        if name.eq_ignore_ascii_case("authorization")
            && let Some(token) = value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer "))
        {
            made = made.auth_header(token.trim());
            continue;
        }
        let header: HeaderName = name.parse().map_err(|_| format!("`{name}` is not a valid header name"))?;
        let value =
            HeaderValue::from_str(value).map_err(|_| format!("the value of its header `{name}` cannot be sent"))?;
        headers.insert(header, value);
    }
    Ok(made.custom_headers(headers))
}

/// Returns the authorization error in a chain of errors, if there is one.
pub(crate) fn authorization(server: &str, error: &(dyn StdError + 'static)) -> Option<McpError> {
    chain(error).find_map(|cause| {
        if let Some(wanted) = cause.downcast_ref::<InsufficientScopeError>() {
            let scope = crate::text::line(wanted.required_scope.as_deref().unwrap_or_default(), 200);
            return Some(McpError::Scope { server: server.to_owned(), scope });
        }
        cause.is::<AuthRequiredError>().then(|| McpError::Unauthorized { server: server.to_owned() })
    })
}

/// Describes a transport error for a person: the HTTP status, or the causes without repetitions and Rust type names.
pub(crate) fn reason(error: &(dyn StdError + 'static)) -> String {
    let status = chain(error).find_map(|cause| cause.downcast_ref::<HttpStatusError>());
    if let Some(status) = status {
        return format!("{STATUS} {}", status.status);
    }
    if let Some(unexpected) = chain(error).find_map(|cause| cause.downcast_ref::<Failure>())
        && let Some(words) = unexpected_answer(unexpected)
    {
        return words;
    }
    let mut words: Vec<String> = Vec::new();
    let mut causes = chain(error).map(ToString::to_string).peekable();
    while let Some(text) = causes.next() {
        // Skips errors that only repeat their cause.
        if causes.peek().is_some_and(|below| text.contains(below)) || text.contains("WorkerTransport") {
            continue;
        }
        if !words.contains(&text) {
            words.push(text);
        }
    }
    crate::text::line(&words.join(": "), 400)
}

/// Returns a URL without its query, fragment and user info, which may hold secrets.
///
/// ```
/// use deepagents_mcp::shown_address;
/// assert_eq!(shown_address("https://example.com/mcp?token=sk-1"), "https://example.com/mcp?…");
/// assert_eq!(shown_address("https://example.com/mcp"), "https://example.com/mcp");
/// ```
pub fn shown_address(address: &str) -> String {
    let (before, query) = address.split_once(['?', '#']).map_or((address, ""), |(before, _)| (before, "?…"));
    let Some((scheme, rest)) = before.split_once("://") else { return format!("{before}{query}") };
    let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = host.rsplit_once('@').map_or_else(|| host.to_owned(), |(_, host)| format!("…@{host}"));
    let path = path.map(|path| format!("/{path}")).unwrap_or_default();
    format!("{scheme}://{host}{path}{query}")
}

/// Describes a malformed response, where the error's own message is meant for programmers.
fn unexpected_answer(error: &Failure) -> Option<String> {
    Some(match error {
        Failure::UnexpectedContentType(Some(kind)) => {
            format!("it answered with {}, which is not a content type of MCP", crate::text::line(kind, 100))
        }
        Failure::UnexpectedContentType(None) => "it answered without a content type".to_owned(),
        Failure::Io(error) => crate::text::line(&error.to_string(), 400),
        Failure::UnexpectedServerResponse(_) | StreamableHttpError::Deserialize(_) => {
            "its answer does not follow the protocol".to_owned()
        }
        Failure::UnexpectedEndOfStream => "its answer ended too early".to_owned(),
        Failure::ServerDoesNotSupportSse => "it does not stream its answers".to_owned(),
        Failure::MissingSessionIdInResponse => "it began a session without an id".to_owned(),
        Failure::ResponseBodyTooLarge { max_size } => {
            format!("its answer is longer than {} MiB", max_size >> 20)
        }
        Failure::SessionExpired => "it no longer knows the session".to_owned(),
        _ => return None,
    })
}

/// Iterates over an error and its causes. The transport error does not return the client's error as its source.
fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        let error: &'a (dyn StdError + 'static) = *error;
        match error.downcast_ref::<Failure>() {
            Some(Failure::Client(client)) => Some(client as &(dyn StdError + 'static)),
            Some(Failure::HttpStatus(status)) => Some(status as &(dyn StdError + 'static)),
            _ => error.source(),
        }
    })
}
