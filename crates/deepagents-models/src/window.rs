//! Asks a server for the context window of a model.
//!
//! Self-hosted servers run models that no catalogue contains, with windows configured at startup. Most servers report
//! the window, each in a different place.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder, Url};
use serde_json::{Value, json};

use crate::body::RequestBody;
use crate::config::{ConfigError, ModelConfig};
use crate::hook::Attempt;
use crate::http::{Auth, Endpoint};
use crate::openai::Dialect;

/// Timeout of each request; a running server responds immediately.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of bytes read of a response.
const MAX_RESPONSE_BYTES: usize = 8 << 20;
/// Fields with the window in a list of models: of vLLM, OpenRouter and Together, Groq, LM Studio (the loaded window,
/// then the maximum), and Mistral.
const FIELDS: [&str; 5] =
    ["max_model_len", "context_length", "context_window", "loaded_context_length", "max_context_length"];

/// Asks the server of a model for its context window in tokens. Returns `None` if the server does not report it, cannot
/// be reached, or does not implement Chat Completions.
///
/// Tries the list of models (`GET /models`) first, then the endpoints of llama.cpp (`/props`), Ollama (`/api/ps`, and
/// the parameter `num_ctx` of `/api/show`) and LM Studio (`/api/v0/models`). Each request has a timeout of three
/// seconds; after one without a response, no others are sent.
///
/// # Errors
/// Returns an error if the name or the configuration cannot be used.
pub(crate) async fn ask(provider: &str, model: &str, config: &ModelConfig) -> Result<Option<u64>, ConfigError> {
    // A service lists its models at the same place for every wire.
    let dialect = Dialect::named(provider).or_else(|| Dialect::named(&format!("{provider}-chat")));
    let Some(dialect) = dialect else { return Ok(None) };
    let Some(base) = config.base_url.as_deref().or(dialect.base_url) else { return Ok(None) };
    let auth = dialect.key_header.map_or(Auth::Bearer, Auth::Header);
    let endpoint = Endpoint::new(base, "/models", auth, &[], config)?;
    let Ok(client) = endpoint.client().await else { return Ok(None) };
    let server = Server { client, endpoint: &endpoint };
    // A server that fails to respond once is not asked again.
    Ok(server.window(base, model, dialect.key_required).await.unwrap_or(None))
}

struct Server<'a> {
    client: Client,
    endpoint: &'a Endpoint,
}

/// The server did not respond at all.
struct Silent;

impl Server<'_> {
    async fn window(&self, base: &str, model: &str, is_service: bool) -> Result<Option<u64>, Silent> {
        let models = self.get(self.endpoint.url.clone()).await?;
        let mut window = models.and_then(|models| listed(&models, model));
        // Services that require a key do not have the other endpoints.
        if window.is_some() || is_service {
            return Ok(window);
        }
        let root = base.trim_end_matches('/').trim_end_matches("/v1");
        let at = |path: &str| Url::parse(&format!("{root}{path}")).map_err(|_| Silent);
        if let Some(props) = self.get(at("/props")?).await? {
            let set = props.pointer("/default_generation_settings/n_ctx").or_else(|| props.get("n_ctx"));
            window = set.and_then(Value::as_u64);
        }
        if window.is_none() {
            window = self.get(at("/api/ps")?).await?.and_then(|running| listed(&running, model));
        }
        if window.is_none() {
            let shown = self.post(at("/api/show")?, &json!({"model": model})).await?;
            window = shown.and_then(|shown| parameter(&shown));
        }
        if window.is_none() {
            window = self.get(at("/api/v0/models")?).await?.and_then(|models| listed(&models, model));
        }
        Ok(window)
    }

    async fn headers(&self, url: &Url) -> Result<HeaderMap, Silent> {
        let credential = match &self.endpoint.credentials {
            Some(credentials) => Some(credentials.get().await.map_err(|_| Silent)?),
            None => None,
        };
        let attempt = Attempt { url, number: 1, body_len: 0 };
        self.endpoint.headers(credential.as_ref(), &attempt, &[], &RequestBody::default()).map_err(|_| Silent)
    }

    async fn get(&self, url: Url) -> Result<Option<Value>, Silent> {
        let headers = self.headers(&url).await?;
        answer(self.client.get(url).headers(headers)).await
    }

    async fn post(&self, url: Url, body: &Value) -> Result<Option<Value>, Silent> {
        let headers = self.headers(&url).await?;
        answer(self.client.post(url).headers(headers).body(body.to_string())).await
    }
}

/// Returns the JSON of a successful response.
async fn answer(request: RequestBuilder) -> Result<Option<Value>, Silent> {
    let mut response = request.timeout(REQUEST_TIMEOUT).send().await.map_err(|_| Silent)?;
    if !response.status().is_success() {
        return Ok(None);
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| Silent)? {
        if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(serde_json::from_slice(&body).ok())
}

/// Returns the window that a list of models reports for a model.
fn listed(models: &Value, model: &str) -> Option<u64> {
    let entries = ["data", "models"].into_iter().find_map(|key| models.get(key)?.as_array())?;
    let is_it = |entry: &&Value| {
        let mut names = ["id", "name", "model"].into_iter().filter_map(|key| entry.get(key)?.as_str());
        // Ollama adds a tag if the caller omits it.
        names.any(|name| name == model || name.strip_suffix(":latest") == Some(model))
    };
    let entry = entries.iter().find(is_it)?;
    FIELDS.into_iter().find_map(|field| entry.get(field)?.as_u64()).filter(|&window| window > 0)
}

/// Returns the window that an Ollama model is configured with. The trained window is not used, since Ollama runs models
/// with less by default.
fn parameter(shown: &Value) -> Option<u64> {
    let lines = shown.get("parameters")?.as_str()?.lines();
    let mut words = lines.map(str::split_whitespace);
    words.find_map(|mut words| if words.next() == Some("num_ctx") { words.next()?.parse().ok() } else { None })
}
