//! How a provider is reached: key, address, time limits, retries.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::model::ModelProfile;
use serde_json::{Map, Value};

use crate::catalogue::Catalogue;
use crate::credentials::Credentials;
use crate::hook::CallHook;
use crate::http::ClientPool;
use crate::retry::{RetryPolicy, SharedBackoff};

/// How a provider is reached. What is not set takes the provider's default.
///
/// Nothing here is read from the environment: the program that owns the keys hands them over.
///
/// ```
/// use deepagents_models::ModelConfig;
/// let config = ModelConfig { api_key: Some("a key".into()), ..ModelConfig::default() };
/// assert!(!format!("{config:?}").contains("a key"));
/// ```
#[derive(Clone, Default)]
pub struct ModelConfig {
    /// The key that the provider gave out, or what tokens and other credentials come from. Secrets never appear in
    /// errors or in `Debug` output.
    pub api_key: Option<Credentials>,
    /// The address before the path of the call, such as `https://api.anthropic.com` or `http://localhost:8080/v1`.
    pub base_url: Option<String>,
    /// More request headers; they win over those the client sets itself.
    pub headers: Vec<(String, String)>,
    /// Fields merged into every request's body, last; a request's own extra fields win over them.
    pub extra: Map<String, Value>,
    /// An HTTP client to use in place of the shared one; `proxy` and `timeouts.connect` are then its own business.
    pub client: Option<reqwest::Client>,
    /// The address of a proxy for all calls. Without one calls go out directly, whatever the environment says.
    pub proxy: Option<String>,
    /// Time limits of the parts of a call.
    pub timeouts: Option<Timeouts>,
    /// When and how often a failed call is made again.
    pub retry: Option<RetryPolicy>,
    /// Tokens that the model reads, where that is not known of it or is less than it could be: its profile says this.
    pub context_window: Option<u64>,
    /// Whether answers are streamed (the default) or fetched in one piece.
    pub streaming: Option<bool>,
    /// What makes calls with one key wait together; a [`Registry`](crate::Registry) gives all its models one.
    pub backoff: Option<SharedBackoff>,
    /// Whether calls that a model writes into its text are made, as small ones need it
    /// ([`TextToolCalls`](crate::TextToolCalls)); not unless it is asked for.
    pub text_tool_calls: Option<bool>,
    /// What sees each request and answer, and may add headers.
    pub hook: Option<Arc<dyn CallHook>>,
    /// What is known of models, in place of the catalogue that comes with the library.
    pub catalogue: Option<Arc<Catalogue>>,
    /// The connections that models share; a [`Registry`](crate::Registry) gives all its models one pool.
    pub pool: ClientPool,
}

impl ModelConfig {
    /// This configuration with what it leaves open taken from another; headers and extra fields are joined, and
    /// where both have one, this one's is used.
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
            pool: base.pool.clone(),
        }
    }
}

impl ModelConfig {
    /// What is known of a model.
    pub(crate) fn profile(&self, model: &str) -> ModelProfile {
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

/// Time limits of the parts of a call. The whole of it, retries included, is limited by
/// [`ModelSettings::timeout`](deepagents_core::model::ModelSettings::timeout).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect: Duration,
    /// From sending a request to the first bytes of a streamed answer.
    pub first_byte: Duration,
    /// Between two pieces of a streamed answer.
    pub idle: Duration,
    /// For an answer that is fetched in one piece.
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

/// Why a model could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ConfigError {
    /// The name has no provider in front; `hint` is a name that would do.
    #[error("`{name}` does not name a provider; write it as provider:model, such as `{hint}`")]
    NoProvider { name: String, hint: String },
    /// Nobody registered the provider.
    #[error("there is no provider `{provider}`; the known ones are {}", known.join(", "))]
    UnknownProvider { provider: String, known: Vec<String> },
    /// The name stops after the provider.
    #[error("`{provider}:` does not name a model; write the model's name after the colon")]
    EmptyModel { provider: String },
    /// The provider wants a key and none was given; `variable` is that of the environment that usually holds it.
    #[error(
        "{provider} needs a key: pass it as `ModelConfig::api_key` (programs usually read it from {})",
        variable.as_deref().unwrap_or("a variable of their choice")
    )]
    MissingKey { provider: String, variable: Option<String> },
    /// The provider has no address of its own and none was given.
    #[error("{provider} has no fixed address: set `ModelConfig::base_url`, such as `{example}`")]
    MissingBaseUrl { provider: String, example: String },
    /// An address that is not one.
    #[error("`{url}` is not an address of a server: {reason}")]
    BadUrl { url: String, reason: String },
    /// A header or key that cannot be sent; its value may be secret.
    #[error(
        "the header `{name}` cannot be sent: its name or value contains characters that are not allowed in headers"
    )]
    BadHeader { name: String },
    /// A key that cannot be sent to this provider; it may be secret.
    #[error(
        "the key cannot be sent to this provider: it contains characters that are not allowed in headers, or is of \
         the wrong kind"
    )]
    BadCredential,
    /// Something else, in a factory's words.
    #[error("{0}")]
    Other(String),
}
