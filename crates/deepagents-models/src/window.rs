//! Asks a server for the context window of a model.
//!
//! Self-hosted servers run models that no catalogue contains, with windows configured at startup. Most servers report
//! the window, each in a different place.

use std::time::Duration;

use deepagents_core::model::ModelError;
use reqwest::Url;
use serde_json::{Value, json};

use crate::config::{ConfigError, ModelConfig, Timeouts};
use crate::http::Endpoint;
use crate::openai::Dialect;

/// Timeout of each request; a running server responds immediately.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
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
    let Some(dialect) = Dialect::of_service(provider) else { return Ok(None) };
    let Some(base) = config.base_url.as_deref().or(dialect.base_url) else { return Ok(None) };
    let timeouts = Timeouts { first_byte: REQUEST_TIMEOUT, ..config.timeouts.clone().unwrap_or_default() };
    let config = ModelConfig { timeouts: Some(timeouts), ..config.clone() };
    let endpoint = Endpoint::new(base, "/models", dialect.auth(), &[], &config)?;
    // A server that fails to respond once is not asked again.
    Ok(window(&endpoint, base, model, dialect.key_required).await.unwrap_or(None))
}

/// Returns an error if the server does not respond at all.
async fn window(endpoint: &Endpoint, base: &str, model: &str, is_service: bool) -> Result<Option<u64>, ModelError> {
    let models = answer(endpoint, &endpoint.url, None).await?;
    let mut window = models.and_then(|models| listed(&models, model));
    // Services that require a key do not have the other endpoints.
    if window.is_some() || is_service {
        return Ok(window);
    }
    let root = base.trim_end_matches('/').trim_end_matches("/v1");
    let at = |path: &str| Url::parse(&format!("{root}{path}")).map_err(|error| ModelError::invalid(error.to_string()));
    if let Some(props) = answer(endpoint, &at("/props")?, None).await? {
        let set = props.pointer("/default_generation_settings/n_ctx").or_else(|| props.get("n_ctx"));
        window = set.and_then(Value::as_u64);
    }
    if window.is_none() {
        window = answer(endpoint, &at("/api/ps")?, None).await?.and_then(|running| listed(&running, model));
    }
    if window.is_none() {
        let shown = answer(endpoint, &at("/api/show")?, Some(&json!({"model": model}))).await?;
        window = shown.and_then(|shown| parameter(&shown));
    }
    if window.is_none() {
        window = answer(endpoint, &at("/api/v0/models")?, None).await?.and_then(|models| listed(&models, model));
    }
    Ok(window)
}

/// Asks the server, and returns the JSON of a successful response.
async fn answer(endpoint: &Endpoint, url: &Url, body: Option<&Value>) -> Result<Option<Value>, ModelError> {
    match endpoint.ask(url, body).await {
        Ok(body) => Ok(serde_json::from_slice(&body).ok()),
        Err(error) if error.info().status.is_some() => Ok(None),
        Err(error) => Err(error),
    }
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
