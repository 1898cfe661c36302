//! The HTTP requests of a login.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Request, Response};
use rmcp::transport::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest};
use serde_json::Value;

use super::dpop::{Dpop, PROOF, WANTS_NONCE};

/// Bytes of an answer.
const MOST: usize = 1 << 20;

/// What streams of events are called.
const STREAM: &[u8] = b"text/event-stream";

/// How long the server may take to say what it wants.
const ANSWER: Duration = Duration::from_secs(10);

/// Makes the requests of a login with our client, which follows redirects on the same origin alone. Requests for tokens
/// carry the proof of a key, once there is one.
#[derive(Clone)]
pub(super) struct LoginClient {
    http: reqwest::Client,
    dpop: Arc<OnceLock<Arc<Dpop>>>,
    resource: Option<Arc<str>>,
}

/// What tokens are asked for by: the address without its query, which may hold a secret that is none of the issuer's.
pub(super) fn resource(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

impl LoginClient {
    pub(super) fn new(http: reqwest::Client) -> Self {
        Self { http, dpop: Arc::default(), resource: None }
    }

    /// The same, where tokens are asked for by this name.
    pub(super) fn asking_for(self, resource: Option<String>) -> Self {
        Self { resource: resource.map(Into::into), ..self }
    }

    /// Binds the tokens that are asked for from now on to a key.
    pub(super) fn bind(&self, dpop: Arc<Dpop>) {
        // A client is made for one server, which has one key.
        let _ = self.dpop.set(dpop);
    }

    /// The key that tokens are bound to.
    pub(super) fn dpop(&self) -> Option<&Arc<Dpop>> {
        self.dpop.get()
    }

    /// Makes a request; one for a token is made again with the nonce that its issuer wants.
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
        let url = reqwest::Url::parse(&request.uri().to_string())?;
        let proven = |mut request: Request<Vec<u8>>| -> Result<_, OAuthHttpClientError> {
            let proof = dpop.proof("POST", &url, None)?;
            request.headers_mut().insert(PROOF, HeaderValue::from_str(&proof)?);
            Ok(request)
        };
        let answer = self.exchange(proven(request.clone())?, limit).await?;
        let is_new = dpop.learn(&url, answer.headers());
        if is_new && answer.status().is_client_error() && says(answer.body(), WANTS_NONCE) {
            let answer = self.exchange(proven(request)?, limit).await?;
            dpop.learn(&url, answer.headers());
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
        let mut answer = self.http.execute(made).await?;
        let mut built = Response::builder().status(answer.status()).version(answer.version());
        for (name, value) in answer.headers() {
            built = built.header(name, value);
        }
        let mut body = Vec::new();
        let is_stream = answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(STREAM));
        // A stream of events is no answer to a login, and it may never end.
        while !is_stream && let Some(chunk) = answer.chunk().await? {
            if body.len() + chunk.len() > MOST {
                return Err(OAuthHttpClientError::from("the answer is too long"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(built.body(with_number(body))?)
    }

    /// What the server answers to a request that does nothing: what it wants for authorization, and a nonce where it has some.
    pub(super) async fn ask(&self, url: &str, headers: HeaderMap) -> Option<HeaderMap> {
        let ping = serde_json::json!({"jsonrpc": "2.0", "id": 0, "method": "ping"});
        let request = self.http.post(url).timeout(ANSWER).header(ACCEPT, "application/json, text/event-stream");
        let answer = request.headers(headers).json(&ping).send().await.ok()?;
        Some(answer.headers().clone())
    }

    /// What the server says to a request without a token: where the login is, and what it should cover. Without an answer
    /// it is looked for where such things usually are.
    pub(super) async fn challenge(&self, url: &str) -> Option<String> {
        let answer = self.ask(url, HeaderMap::new()).await?;
        let said: Vec<&str> = answer.get_all(WWW_AUTHENTICATE).iter().filter_map(|said| said.to_str().ok()).collect();
        (!said.is_empty()).then(|| said.join(", "))
    }
}

/// The same form with this as its `resource`.
fn with_resource(form: &[u8], resource: &str) -> Vec<u8> {
    let others = form_urlencoded::parse(form).filter(|(name, _)| name != "resource");
    let mut made = form_urlencoded::Serializer::new(String::new());
    made.extend_pairs(others).append_pair("resource", resource).finish().into_bytes()
}

/// The same body; how long a token is valid is a number in it, which some issuers write as a text.
fn with_number(body: Vec<u8>) -> Vec<u8> {
    if !says(&body, "\"expires_in\"") {
        return body;
    }
    let Ok(mut answer) = serde_json::from_slice::<Value>(&body) else { return body };
    let Some(seconds) = answer.get_mut("expires_in") else { return body };
    let Some(number) = seconds.as_str().and_then(|text| text.trim().parse::<u64>().ok()) else { return body };
    *seconds = number.into();
    answer.to_string().into_bytes()
}

/// Whether a body has a word.
fn says(body: &[u8], word: &str) -> bool {
    String::from_utf8_lossy(body).contains(word)
}

impl OAuthHttpClient for LoginClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(self.send(request.request, request.timeout))
    }
}
