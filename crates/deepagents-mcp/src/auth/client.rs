//! HTTP requests of a login.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request, Response};
use reqwest::Url;
use rmcp::transport::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest};
use serde_json::{Value, json};

use super::LoginError;
use super::dpop::{Dpop, PROOF, WANTS_NONCE};
use crate::config::{HttpConfig, HttpTransport};
use crate::http::Clients;

/// Maximum size of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// Media type of event streams.
const EVENT_STREAM: &[u8] = b"text/event-stream";

/// The content types that a server is asked for.
const ACCEPTED: &str = "application/json, text/event-stream";

/// Timeout for the server's authorization challenge.
const CHALLENGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends the requests of a login with our HTTP client, which follows redirects only within the same origin. Once there
/// is a key, token requests carry a DPoP proof.
#[derive(Clone)]
pub(super) struct LoginClient {
    http: Clients,
    dpop: Arc<OnceLock<Arc<Dpop>>>,
    resource: Option<Arc<str>>,
    /// The server that the tokens are for. Its configured headers are sent only to its own origin.
    server: Arc<Own>,
}

/// The headers of a server, for requests to its origin.
struct Own {
    url: Url,
    transport: HttpTransport,
    headers: HeaderMap,
}

/// Returns the resource to request tokens for: the URL without its query, which may hold a secret that is not for the
/// issuer.
pub(super) fn resource(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

impl LoginClient {
    /// Creates the HTTP client for a login to a server.
    pub(super) fn new(http: Clients, server: &HttpConfig) -> Result<Self, LoginError> {
        let url =
            Url::parse(&server.url).map_err(|error| LoginError::Refused(format!("its address is none: {error}")))?;
        let made = crate::http::transport_config(server).map_err(LoginError::Refused)?;
        let mut headers: HeaderMap = made.custom_headers.into_iter().collect();
        // The login replaces the server's own authorization, and issuers have another one.
        headers.remove(AUTHORIZATION);
        let server = Arc::new(Own { url, transport: server.transport, headers });
        Ok(Self { http, dpop: Arc::default(), resource: None, server })
    }

    /// Sets the resource of token requests.
    pub(super) fn asking_for(self, resource: Option<String>) -> Self {
        Self { resource: resource.map(Into::into), ..self }
    }

    /// Binds the tokens requested from now on to a key.
    pub(super) fn bind(&self, dpop: Arc<Dpop>) {
        // Set once: a client belongs to one server, which has one key.
        let _ = self.dpop.set(dpop);
    }

    /// Returns the key that tokens are bound to.
    pub(super) fn dpop(&self) -> Option<&Arc<Dpop>> {
        self.dpop.get()
    }

    /// Sends a request. A token request is repeated with the nonce that the issuer requires.
    pub(super) async fn send(
        &self,
        mut request: Request<Vec<u8>>,
        limit: Option<Duration>,
    ) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        let is_form = |value: &HeaderValue| value.as_bytes().starts_with(b"application/x-www-form-urlencoded");
        let asks_for_token =
            request.method() == Method::POST && request.headers().get(CONTENT_TYPE).is_some_and(is_form);
        if let Some(resource) = self.resource.as_deref().filter(|_| asks_for_token) {
            request = request.map(|body| with_resource(&body, resource));
        }
        let Some(dpop) = self.dpop().filter(|_| asks_for_token) else { return self.exchange(request, limit).await };
        let url = Url::parse(&request.uri().to_string())?;
        let proven = |mut request: Request<Vec<u8>>| -> Result<_, OAuthHttpClientError> {
            let proof = dpop.proof("POST", &url, None)?;
            request.headers_mut().insert(PROOF, HeaderValue::from_str(&proof)?);
            Ok(request)
        };
        let answer = self.exchange(proven(request.clone())?, limit).await?;
        let has_nonce = dpop.store_nonce(&url, answer.headers());
        if has_nonce && answer.status().is_client_error() && says(answer.body(), WANTS_NONCE) {
            let answer = self.exchange(proven(request)?, limit).await?;
            dpop.store_nonce(&url, answer.headers());
            return Ok(answer);
        }
        Ok(answer)
    }

    async fn exchange(
        &self,
        request: Request<Vec<u8>>,
        limit: Option<Duration>,
    ) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        let mut made = reqwest::Request::try_from(request)?;
        *made.timeout_mut() = limit;
        self.add_own_headers(&mut made);
        let http = self.http.to(made.url()).map_err(OAuthHttpClientError::from)?;
        let mut answer = http.execute(made).await?;
        let mut built = Response::builder().status(answer.status()).version(answer.version());
        for (name, value) in answer.headers() {
            built = built.header(name, value);
        }
        let mut body = Vec::new();
        let is_stream =
            answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(EVENT_STREAM));
        // An event stream is not a valid response and might never end.
        while !is_stream && let Some(chunk) = answer.chunk().await? {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                return Err(OAuthHttpClientError::from("the answer is too long"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(built.body(with_number(body))?)
    }

    /// Adds the server's headers to a request to its origin, because a gateway in front of it may require them. Headers
    /// that the request already has are kept.
    fn add_own_headers(&self, request: &mut reqwest::Request) {
        if request.url().origin() != self.server.url.origin() {
            return;
        }
        for (name, value) in &self.server.headers {
            request.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
    }

    /// Returns the server's challenge to a request without a token, which names the metadata URL and scopes. Without
    /// it, the metadata is looked for at the well-known locations.
    pub(super) async fn challenge(&self) -> Option<String> {
        let ping = json!({"jsonrpc": "2.0", "id": 0, "method": "ping"});
        let http = self.http.to(&self.server.url).ok()?;
        let post = || http.post(self.server.url.clone()).json(&ping);
        let get = || http.get(self.server.url.clone());
        // A server may speak the other transport than the configured one.
        let (first, other) = match self.server.transport {
            HttpTransport::Streamable => (post(), get()),
            HttpTransport::Sse => (get(), post()),
        };
        match self.challenge_to(first).await {
            None => self.challenge_to(other).await,
            challenge => challenge,
        }
    }

    async fn challenge_to(&self, request: reqwest::RequestBuilder) -> Option<String> {
        let (http, request) = request.timeout(CHALLENGE_TIMEOUT).header(ACCEPT, ACCEPTED).build_split();
        let mut request = request.ok()?;
        self.add_own_headers(&mut request);
        crate::http::challenges(http.execute(request).await.ok()?.headers())
    }
}

/// Sets the `resource` of a form.
fn with_resource(form: &[u8], resource: &str) -> Vec<u8> {
    let others = form_urlencoded::parse(form).filter(|(name, _)| name != "resource");
    let mut made = form_urlencoded::Serializer::new(String::new());
    made.extend_pairs(others).append_pair("resource", resource).finish().into_bytes()
}

/// Converts `expires_in` to a whole number. Some issuers send it as a string, or with a fraction.
fn with_number(body: Vec<u8>) -> Vec<u8> {
    if !says(&body, "\"expires_in\"") {
        return body;
    }
    let Ok(mut answer) = serde_json::from_slice::<Value>(&body) else { return body };
    let Some(seconds) = answer.get_mut("expires_in") else { return body };
    let text = seconds.as_str().map_or_else(|| seconds.to_string(), str::to_owned);
    let rounded = |text: &str| Some(Duration::try_from_secs_f64(text.parse().ok()?).ok()?.as_secs());
    let Some(lifetime) = text.trim().parse::<u64>().ok().or_else(|| rounded(text.trim())) else { return body };
    *seconds = lifetime.into();
    answer.to_string().into_bytes()
}

/// Whether a body contains a word.
fn says(body: &[u8], word: &str) -> bool {
    String::from_utf8_lossy(body).contains(word)
}

impl OAuthHttpClient for LoginClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(self.send(request.request, request.timeout))
    }
}
