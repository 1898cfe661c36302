//! Configuration of a provider: key, address, timeouts, retries.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::model::ModelProfile;
use serde_json::{Map, Value};

use crate::catalogue::Catalogue;
use crate::credentials::Credentials;
use crate::hook::CallHook;
use crate::http::ClientPool;
use crate::retry::{RetryPolicy, SharedBackoff};

/// Configuration of a provider. Unset fields use the provider's defaults.
///
/// Nothing is read from the environment: the program passes in its keys.
///
/// ```
/// use deepagents_models::ModelConfig;
/// let config = ModelConfig { api_key: Some("a key".into()), ..ModelConfig::default() };
/// assert!(!format!("{config:?}").contains("a key"));
/// ```
#[derive(Clone, Default)]
pub struct ModelConfig {
    /// API key, or a source of tokens or other credentials. Secrets never appear in errors or in `Debug` output.
    pub api_key: Option<Credentials>,
    /// Base URL, without the path of the call, such as `https://api.anthropic.com` or `http://localhost:8080/v1`.
    pub base_url: Option<String>,
    /// Additional request headers; they override those the client sets itself.
    pub headers: Vec<(String, String)>,
    /// Fields merged into the body of every request, last; a request's own extra fields override them.
    pub extra: Map<String, Value>,
    /// HTTP client to use instead of the shared ones. `proxy` and `timeouts.connect` then have no effect; configure them
    /// on the client. It opens one HTTP/2 connection to a host, and servers allow a hundred requests or more on one:
    /// with more calls at once, set [`ClientPool::with_max_requests`] accordingly.
    pub client: Option<reqwest::Client>,
    /// URL of a proxy for all calls. Without one, calls go out directly, regardless of the environment.
    pub proxy: Option<String>,
    /// Timeouts for the phases of a call.
    pub timeouts: Option<Timeouts>,
    /// Retry policy for failed calls.
    pub retry: Option<RetryPolicy>,
    /// Context window in tokens, reported in the model's profile. Set it if the window is unknown or should be smaller
    /// than the model allows.
    pub context_window: Option<u64>,
    /// Whether responses are streamed (the default) or fetched whole.
    pub streaming: Option<bool>,
    /// Makes calls with the same key back off together; a [`Registry`](crate::Registry) gives all its models the same
    /// one.
    pub backoff: Option<SharedBackoff>,
    /// Whether to make tool calls that a model writes in its text, as small models do
    /// ([`TextToolCalls`](crate::TextToolCalls)); off by default.
    pub text_tool_calls: Option<bool>,
    /// Hook that observes each request and response, and may add headers.
    pub hook: Option<Arc<dyn CallHook>>,
    /// Catalogue of model facts to use instead of the built-in one.
    pub catalogue: Option<Arc<Catalogue>>,
    /// Connection pool shared by models. A [`Registry`](crate::Registry) gives all its models one pool, except those whose
    /// configuration has one made with [`ClientPool::with_max_requests`].
    pub pool: ClientPool,
}

impl ModelConfig {
    /// Fills unset fields from `base`. Headers and extra fields are merged; if both set one, this configuration wins.
    #[must_use]
    pub fn over(self, base: &Self) -> Self {
        let mut headers = base.headers.clone();
        headers.retain(|(name, _)| !self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)));
        headers.extend(self.headers);
        let mut extra = base.extra.clone();
        extra.extend(self.extra);
        Self {
            api_key: self.api_key.or_else(|| base.api_key.clone()),
            base_url: self.base_url.or_else(|| base.base_url.clone()),
            headers,
            extra,
            client: self.client.or_else(|| base.client.clone()),
            proxy: self.proxy.or_else(|| base.proxy.clone()),
            timeouts: self.timeouts.or_else(|| base.timeouts.clone()),
            retry: self.retry.or_else(|| base.retry.clone()),
            context_window: self.context_window.or(base.context_window),
            streaming: self.streaming.or(base.streaming),
            backoff: self.backoff.or_else(|| base.backoff.clone()),
            text_tool_calls: self.text_tool_calls.or(base.text_tool_calls),
            hook: self.hook.or_else(|| base.hook.clone()),
            catalogue: self.catalogue.or_else(|| base.catalogue.clone()),
            pool: if self.pool.is_default() { base.pool.clone() } else { self.pool },
        }
    }

    /// Returns the base URL, or the usual one of the provider.
    pub(crate) fn base_url_or<'a>(
        &'a self,
        usual: Option<&'a str>,
        provider: &str,
        example: &str,
    ) -> Result<&'a str, ConfigError> {
        let missing = || ConfigError::MissingBaseUrl { provider: provider.to_owned(), example: example.to_owned() };
        self.base_url.as_deref().or(usual).ok_or_else(missing)
    }

    /// Returns what the catalogue contains about a model, with the context window of this configuration: what a client
    /// of your own returns as its [profile](deepagents_core::model::ChatModel::profile).
    ///
    /// ```
    /// use deepagents_models::ModelConfig;
    /// let config = ModelConfig { context_window: Some(50_000), ..ModelConfig::default() };
    /// let profile = config.profile("claude-sonnet-4-5");
    /// assert!(profile.price.is_some() && profile.context_window == Some(50_000));
    /// ```
    pub fn profile(&self, model: &str) -> ModelProfile {
        let mut profile = self.catalogue.as_deref().unwrap_or(Catalogue::built_in()).profile(model);
        profile.context_window = self.context_window.or(profile.context_window);
        profile
    }
}

impl std::fmt::Debug for ModelConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ModelConfig")
            .field("api_key", &self.api_key.as_ref().map(|_| "set"))
            .field("base_url", &self.base_url)
            .field("headers", &names)
            .field("extra", &self.extra)
            .field("own_client", &self.client.is_some())
            .field("timeouts", &self.timeouts)
            .field("retry", &self.retry)
            .field("context_window", &self.context_window)
            .field("streaming", &self.streaming)
            .finish_non_exhaustive()
    }
}

/// Timeouts for the phases of a call. [`ModelSettings::timeout`](deepagents_core::model::ModelSettings::timeout) limits
/// the whole call, including retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection is established.
    pub connect: Duration,
    /// From sending a request to the first bytes of a streamed response.
    pub first_byte: Duration,
    /// Between two chunks of a streamed response.
    pub idle: Duration,
    /// For a response that is fetched whole.
    pub answer: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
            answer: Duration::from_secs(600),
        }
    }
}

/// Reason a model could not be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ConfigError {
    /// The name has no provider prefix; `hint` is a complete name.
    #[error("`{name}` does not name a provider; write it as provider:model, such as `{hint}`")]
    NoProvider { name: String, hint: String },
    /// The provider is not registered.
    #[error("there is no provider `{provider}`; the known ones are {}", known.join(", "))]
    UnknownProvider { provider: String, known: Vec<String> },
    /// The name has no model after the provider.
    #[error("`{provider}:` does not name a model; write the model's name after the colon")]
    EmptyModel { provider: String },
    /// The provider requires a key and none was given; `variable` is the environment variable that usually holds it.
    #[error(
        "{provider} needs a key: pass it as `ModelConfig::api_key` (programs usually read it from {})",
        variable.as_deref().unwrap_or("a variable of their choice")
    )]
    MissingKey { provider: String, variable: Option<String> },
    /// The provider has no fixed address and none was given.
    #[error("{provider} has no fixed address: set `ModelConfig::base_url`, such as `{example}`")]
    MissingBaseUrl { provider: String, example: String },
    /// An address is invalid.
    #[error("`{url}` is not an address of a server: {reason}")]
    BadUrl { url: String, reason: String },
    /// A header or key that cannot be sent; its value may be secret.
    #[error(
        "the header `{name}` cannot be sent: its name or value contains characters that are not allowed in headers"
    )]
    BadHeader { name: String },
    /// A key cannot be sent to this provider; it may be secret.
    #[error(
        "the key cannot be sent to this provider: it contains characters that are not allowed in headers, or is of \
         the wrong kind"
    )]
    BadCredential,
    /// Another error, described by a factory.
    #[error("{0}")]
    Other(String),
}
