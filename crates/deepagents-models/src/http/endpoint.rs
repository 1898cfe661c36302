//! Where a model's calls go and what goes with each.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};

use super::ClientPool;
use super::client::ClientKind;
use crate::config::{ConfigError, ModelConfig, Timeouts};
use crate::retry::{BackoffKey, RetryPolicy, SharedBackoff};
use deepagents_core::model::ModelError;

/// How the key is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthHeader {
    /// `authorization: Bearer KEY`.
    Bearer,
    /// The key alone under this name.
    Named(&'static str),
}

/// Where a model's calls go and what goes with each.
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) timeouts: Timeouts,
    pub(crate) retry: RetryPolicy,
    pub(crate) streaming: bool,
    pub(crate) backoff: SharedBackoff,
    pub(crate) backoff_key: BackoffKey,
    secret: Option<String>,
    client: Option<Client>,
    pool: ClientPool,
    kind: ClientKind,
}

impl Endpoint {
    /// Checks and joins what is configured. Nothing is opened yet.
    pub(crate) fn new(
        base_url: &str,
        path: &str,
        auth: AuthHeader,
        fixed: &[(&str, &str)],
        config: &ModelConfig,
    ) -> Result<Self, ConfigError> {
        let bad_url = |reason: &str| ConfigError::BadUrl { url: base_url.to_owned(), reason: reason.to_owned() };
        let url = Url::parse(&format!("{}{path}", base_url.trim_end_matches('/')))
            .map_err(|error| bad_url(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad_url("it must begin with http:// or https://"));
        }
        let secret = config.api_key.as_deref().map(str::trim).filter(|key| !key.is_empty()).map(str::to_owned);
        let mut headers = HeaderMap::new();
        for (name, value) in fixed {
            insert(&mut headers, name, value, false)?;
        }
        insert(&mut headers, "content-type", "application/json", false)?;
        if let Some(key) = &secret {
            match auth {
                AuthHeader::Bearer => insert(&mut headers, "authorization", &format!("Bearer {key}"), true)?,
                AuthHeader::Named(name) => insert(&mut headers, name, key, true)?,
            }
        }
        for (name, value) in &config.headers {
            insert(&mut headers, name, value, true)?;
        }
        let timeouts = config.timeouts.clone().unwrap_or_default();
        let backoff = config.backoff.clone().unwrap_or_default();
        let proxy_tls = config.proxy.as_deref().is_some_and(|proxy| proxy.starts_with("https:"));
        Ok(Self {
            backoff_key: backoff.key(base_url, secret.as_deref()),
            kind: ClientKind {
                tls: url.scheme() == "https" || proxy_tls,
                connect: timeouts.connect,
                proxy: config.proxy.clone(),
            },
            url,
            headers,
            timeouts,
            retry: config.retry.clone().unwrap_or_default(),
            streaming: config.streaming.unwrap_or(true),
            backoff,
            secret,
            client: config.client.clone(),
            pool: config.pool.clone(),
        })
    }

    /// The client for this address.
    pub(crate) async fn client(&self) -> Result<Client, ModelError> {
        match &self.client {
            Some(client) => Ok(client.clone()),
            None => self.pool.get(&self.kind).await,
        }
    }

    /// Takes the key out of an error, should a provider or library have put it there.
    pub(crate) fn redacted(&self, mut error: ModelError) -> ModelError {
        if let Some(secret) = &self.secret {
            let info = error.info_mut();
            info.message = info.message.replace(secret, "[key]");
        }
        error
    }
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str, sensitive: bool) -> Result<(), ConfigError> {
    let bad = || ConfigError::BadHeader { name: name.to_owned() };
    let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
    value.set_sensitive(sensitive);
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
