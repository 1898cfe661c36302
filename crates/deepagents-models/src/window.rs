//! How much a model reads, asked of the server that runs it.
//!
//! Servers that people run themselves serve models that no table knows, in windows that they were started with. Most of
//! them say so, each in a place of its own.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Url};
use serde_json::{Value, json};

use crate::config::{ConfigError, ModelConfig};
use crate::http::{AuthHeader, Endpoint};
use crate::openai::Dialect;

/// How long one question may take: a server that is there answers at once.
const PATIENCE: Duration = Duration::from_secs(3);
/// Bytes of an answer that are read.
const MOST_BYTES: usize = 8 << 20;
/// Fields of an entry in a list of models that hold its window: of vLLM, OpenRouter and Together, Groq, LM Studio (what is
/// loaded, then what could be), and Mistral.
const FIELDS: [&str; 5] =
    ["max_model_len", "context_length", "context_window", "loaded_context_length", "max_context_length"];

/// The window of a model as its server tells it, in tokens; none where the server does not say, cannot be reached, or
/// speaks no Chat Completions.
///
/// The list of models (`GET /models`) is looked at first; then what the servers of llama.cpp (`/props`), Ollama (`/api/ps`,
/// and the parameter `num_ctx` of `/api/show`) and LM Studio (`/api/v0/models`) tell beside it. Each question may take three
/// seconds.
///
/// # Errors
/// When the name or the configuration cannot be used.
pub(crate) async fn ask(provider: &str, model: &str, config: &ModelConfig) -> Result<Option<u64>, ConfigError> {
    let Some(dialect) = Dialect::named(provider) else { return Ok(None) };
    let Some(base) = config.base_url.as_deref().or(dialect.base_url) else { return Ok(None) };
    let auth = dialect.key_header.map_or(AuthHeader::Bearer, AuthHeader::Named);
    let endpoint = Endpoint::new(base, "/models", auth, &[], config)?;
    let Ok(client) = endpoint.client().await else { return Ok(None) };
    let server = Server { client, endpoint: &endpoint };
    if let Some(window) = server.get(endpoint.url.clone()).await.and_then(|models| listed(&models, model)) {
        return Ok(Some(window));
    }
    // The services that are reached with a key have no such places.
    if dialect.key_required {
        return Ok(None);
    }
    let root = base.trim_end_matches('/').trim_end_matches("/v1");
    let at = |path: &str| Url::parse(&format!("{root}{path}")).ok();
    let mut window = None;
    if let Some(url) = at("/props") {
        window = server.get(url).await.and_then(|props| {
            props.pointer("/default_generation_settings/n_ctx").or_else(|| props.get("n_ctx"))?.as_u64()
        });
    }
    if let (None, Some(url)) = (window, at("/api/ps")) {
        window = server.get(url).await.and_then(|running| listed(&running, model));
    }
    if let (None, Some(url)) = (window, at("/api/show")) {
        window = server.post(url, &json!({"model": model})).await.and_then(|shown| parameter(&shown));
    }
    if let (None, Some(url)) = (window, at("/api/v0/models")) {
        window = server.get(url).await.and_then(|models| listed(&models, model));
    }
    Ok(window)
}

struct Server<'a> {
    client: Client,
    endpoint: &'a Endpoint,
}

impl Server<'_> {
    async fn get(&self, url: Url) -> Option<Value> {
        answer(self.client.get(url).headers(self.endpoint.headers.clone())).await
    }

    async fn post(&self, url: Url, body: &Value) -> Option<Value> {
        answer(self.client.post(url).headers(self.endpoint.headers.clone()).body(body.to_string())).await
    }
}

/// The JSON of a successful answer; whatever goes wrong, there is none.
async fn answer(request: RequestBuilder) -> Option<Value> {
    let mut response = request.timeout(PATIENCE).send().await.ok().filter(|response| response.status().is_success())?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        if body.len() + chunk.len() > MOST_BYTES {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&body).ok()
}

/// What a list of models says of one.
fn listed(models: &Value, model: &str) -> Option<u64> {
    let entries = ["data", "models"].into_iter().find_map(|key| models.get(key)?.as_array())?;
    let is_it = |entry: &&Value| {
        let mut names = ["id", "name", "model"].into_iter().filter_map(|key| entry.get(key)?.as_str());
        // Ollama adds a tag where the caller leaves it out.
        names.any(|name| name == model || name.strip_suffix(":latest") == Some(model))
    };
    let entry = entries.iter().find(is_it)?;
    FIELDS.into_iter().find_map(|field| entry.get(field)?.as_u64()).filter(|&window| window > 0)
}

/// The window that a model of Ollama is configured with. What it was trained for is no answer: it is run with less unless
/// somebody says so.
fn parameter(shown: &Value) -> Option<u64> {
    let lines = shown.get("parameters")?.as_str()?.lines();
    let mut words = lines.map(str::split_whitespace);
    words.find_map(|mut words| if words.next() == Some("num_ctx") { words.next()?.parse().ok() } else { None })
}
