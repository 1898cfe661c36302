//! Address of a model's calls, and everything sent with them.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use reqwest::{Client, Method, StatusCode, Url};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::auth::Auth;
use super::client::ClientKind;
use super::error::{authority, from_body, from_transport};
use super::header_names::{is_secret, proves_identity};
use super::hosts::{Host, Slot};
use super::{ClientPool, size};
use crate::body::RequestBody;
use crate::config::{ConfigError, ModelConfig, Timeouts};
use crate::credentials::{Credential, Credentials, hide};
use crate::hook::{Answered, Attempt, CallHook};
use crate::retry::{BackoffKey, RetryPolicy, SharedBackoff};
use deepagents_core::model::ModelError;

/// Address of a model's calls, and everything sent with them.
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) timeouts: Timeouts,
    pub(crate) retry: RetryPolicy,
    pub(crate) streaming: bool,
    pub(crate) backoff: SharedBackoff,
    /// Shared by all models of the service: overload, and the retry budget.
    pub(crate) backoff_key: BackoffKey,
    /// Shared by the calls of one model, because providers limit the rate of each.
    pub(crate) rate_key: BackoffKey,
    auth: Auth,
    pub(super) credentials: Option<Credentials>,
    /// Headers of every request, without the credential.
    headers: HeaderMap,
    pub(crate) hook: Option<Arc<dyn CallHook>>,
    client: Option<Client>,
    pool: ClientPool,
    kind: ClientKind,
    host: Arc<Host>,
}

impl Endpoint {
    /// Validates and merges the configuration. Does not connect.
    pub(crate) fn new(
        base_url: &str,
        path: &str,
        auth: Auth,
        fixed: &[(&str, &str)],
        config: &ModelConfig,
    ) -> Result<Self, ConfigError> {
        let bad_url = |reason: &str| ConfigError::BadUrl { url: base_url.to_owned(), reason: reason.to_owned() };
        let url = Url::parse(&format!("{}{path}", base_url.trim_end_matches('/')))
            .map_err(|error| bad_url(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad_url("it must begin with http:// or https://"));
        }
        let credentials = config.api_key.clone().filter(|credentials| !credentials.is_empty());
        let mut headers = HeaderMap::new();
        for (name, value) in fixed {
            insert(&mut headers, name, value, false)?;
        }
        insert(&mut headers, "content-type", "application/json", false)?;
        for (name, value) in &config.headers {
            insert(&mut headers, name, value, true)?;
        }
        if let Some(credential) = credentials.as_ref().and_then(Credentials::fixed) {
            // Reject a credential that can never be sent right away.
            auth.headers(credential, &url, &headers, &RequestBody::default())
                .map_err(|_| ConfigError::BadCredential)?;
        }
        let timeouts = config.timeouts.clone().unwrap_or_default();
        let backoff = config.backoff.clone().unwrap_or_default();
        let proxy_tls = config.proxy.as_deref().is_some_and(|proxy| proxy.starts_with("https:"));
        let kind = ClientKind {
            tls: url.scheme() == "https" || proxy_tls,
            connect: timeouts.connect,
            proxy: config.proxy.clone(),
        };
        let backoff_key = backoff.key(base_url, credentials.as_ref());
        Ok(Self {
            backoff_key,
            rate_key: backoff_key,
            host: config.pool.host(&kind, &url),
            kind,
            url,
            auth,
            credentials,
            headers,
            timeouts,
            retry: config.retry.clone().unwrap_or_default(),
            streaming: config.streaming.unwrap_or(true),
            backoff,
            hook: config.hook.clone(),
            client: config.client.clone(),
            pool: config.pool.clone(),
        })
    }

    /// Makes it the address of a model, whose rate is limited by itself.
    pub(crate) fn of_model(self, model: &str) -> Self {
        Self { rate_key: self.backoff.key_of_model(self.backoff_key, model), ..self }
    }

    /// Waits until a request can be sent.
    pub(super) async fn slot(&self) -> Result<Slot, ModelError> {
        self.host.slot().await
    }

    /// Returns the client for a request.
    pub(super) async fn client(&self, slot: &Slot) -> Result<Client, ModelError> {
        match &self.client {
            Some(client) => Ok(client.clone()),
            None => self.pool.get(&self.kind, slot.client).await,
        }
    }

    /// Returns whether requests are signed over their bodies.
    pub(crate) fn signs_bodies(&self) -> bool {
        matches!(self.auth, Auth::SigV4 { .. })
    }

    /// Returns the credential to send now, if there is one.
    pub(crate) async fn credential(&self) -> Result<Option<Credential>, ModelError> {
        match &self.credentials {
            Some(credentials) => Ok(Some(credentials.get().await?)),
            None => Ok(None),
        }
    }

    /// Returns the proxy for calls.
    pub(crate) fn proxy(&self) -> Option<&str> {
        // A client passed in by the caller has its own proxy setting.
        self.kind.proxy.as_deref().filter(|_| self.client.is_none())
    }

    /// Removes credentials and secret headers from an error, in case a provider or library included them.
    pub(crate) fn redacted(
        &self,
        mut error: ModelError,
        credential: Option<&Credential>,
        of_call: &[(String, String)],
    ) -> ModelError {
        let info = error.info_mut();
        for text in std::iter::once(&mut info.message).chain(&mut info.code).chain(&mut info.request_id) {
            credential.iter().for_each(|credential| credential.redact(text));
            // Configured headers are sensitive; the others are ours.
            let own = self.headers.iter().filter(|(_, value)| value.is_sensitive());
            let own = own.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
            let given = of_call.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            for (name, value) in own.chain(given.filter(|(name, _)| proves_identity(name))) {
                // The scheme is not secret, and the part after it may appear on its own.
                let parts = [Some(value), value.split_once(' ').map(|(_, secret)| secret)];
                for part in parts.into_iter().flatten().map(str::trim).filter(|part| is_secret(name, part)) {
                    hide(part, text);
                }
            }
        }
        error
    }

    /// Returns the headers of a request. Configured headers override those of the call, headers added by a hook
    /// override both, and all of these override those of the credential. A hook does not see headers that may contain a
    /// secret.
    pub(crate) fn headers(
        &self,
        credential: Option<&Credential>,
        attempt: &Attempt<'_>,
        of_call: &[(String, String)],
        body: &RequestBody,
    ) -> Result<HeaderMap, ModelError> {
        let mut given = HeaderMap::new();
        for (name, value) in of_call {
            insert(&mut given, name, value, proves_identity(name))
                .map_err(|error| ModelError::invalid(error.to_string()))?;
        }
        given.extend(self.headers.clone());
        if let Some(hook) = &self.hook {
            let (mut hidden, mut shown) = (HeaderMap::new(), HeaderMap::new());
            for (name, value) in &given {
                let side = if value.is_sensitive() { &mut hidden } else { &mut shown };
                side.append(name, value.clone());
            }
            hook.request(&Attempt { url: &public(attempt.url), ..*attempt }, &mut shown);
            hidden.extend(shown);
            given = hidden;
        }
        let mut headers = match credential {
            Some(credential) => self.auth.headers(credential, attempt.url, &given, body)?,
            None => HeaderMap::new(),
        };
        headers.extend(given);
        Ok(headers)
    }

    /// Passes the response to the hook.
    pub(crate) fn answered(&self, attempt: &Attempt<'_>, status: StatusCode, headers: &HeaderMap, after: Duration) {
        let Some(hook) = &self.hook else { return };
        let attempt = Attempt { url: &public(attempt.url), ..*attempt };
        let mut shown = Cow::Borrowed(headers);
        if headers.contains_key(SET_COOKIE) {
            shown.to_mut().remove(SET_COOKIE);
        }
        hook.response(&attempt, &Answered { status: status.as_u16(), headers: &shown, after });
    }

    /// Sends another request to the same server, without retries: posts a body, or fetches the URL if there is none.
    /// Returns the body of the response.
    pub(crate) async fn ask(&self, url: &Url, body: Option<&Value>) -> Result<Vec<u8>, ModelError> {
        let credential = self.credential().await?;
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let body: RequestBody = body.into_iter().map(|body| Bytes::from(body.to_string())).collect();
        let attempt = Attempt { url, number: 1, body_len: body.len() };
        let headers = self.headers(credential.as_ref(), &attempt, &[], &body)?;
        let asked = async {
            let slot = self.slot().await?;
            let client = self.client(&slot).await?;
            let began = Instant::now();
            let response = client.request(method, url.clone()).headers(headers).body(body).send().await;
            let response = response.map_err(|error| from_transport(&error, url, self.proxy()))?;
            let (status, headers) = (response.status(), response.headers().clone());
            self.answered(&attempt, status, &headers, began.elapsed());
            let body = size::body(response, url).await?;
            if status.is_success() { Ok(body) } else { Err(from_body(status.as_u16(), &headers, &body)) }
        };
        let late = |_| Err(ModelError::transport(format!("{} did not answer in time", authority(url))));
        let answer = timeout(self.timeouts.first_byte, asked).await.unwrap_or_else(late);
        answer.map_err(|error| self.redacted(error, credential.as_ref(), &[]))
    }
}

/// Returns the URL without user name and password.
fn public(url: &Url) -> Cow<'_, Url> {
    let mut shown = Cow::Borrowed(url);
    if !url.username().is_empty() || url.password().is_some() {
        // Cannot fail, as the URL of a server has a host.
        let _ = shown.to_mut().set_username("").and_then(|()| shown.to_mut().set_password(None));
    }
    shown
}

/// Sets a header.
pub(super) fn insert(headers: &mut HeaderMap, name: &str, value: &str, is_sensitive: bool) -> Result<(), ConfigError> {
    let bad = || ConfigError::BadHeader { name: name.to_owned() };
    let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
    value.set_sensitive(is_sensitive);
    headers.insert(key, value);
    Ok(())
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", &self.url.as_str())
            .field("retry", &self.retry)
            .field("timeouts", &self.timeouts)
            .field("streaming", &self.streaming)
            .finish_non_exhaustive()
    }
}
