//! Which models a server has.

use deepagents_core::model::ModelError;
use serde_json::Value;

use crate::config::{ConfigError, ModelConfig};
use crate::http::{Auth, Endpoint, parse_json};
use crate::ollama;
use crate::registry::providers;

/// A model that a server has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServedModel {
    /// Its name there, the part of a full name behind the colon.
    pub name: String,
    /// Tokens that it reads, where the server says so.
    pub context_window: Option<u64>,
}

/// Why the models of a server could not be listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The provider cannot be asked in this way.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server did not answer, or not so that it could be read.
    #[error(transparent)]
    Call(#[from] ModelError),
}

/// Asks a server which models it has: Ollama by its own API, the others (llama.cpp, vLLM, most services) by `/models`.
///
/// # Errors
/// No address; a server that is away, refuses, or answers something else.
pub async fn served_models(provider: &str, config: &ModelConfig) -> Result<Vec<ServedModel>, DiscoveryError> {
    let usual = providers().into_iter().find(|known| known.name == provider).and_then(|known| known.base_url);
    let base = config.base_url.as_deref().or(usual).ok_or_else(|| ConfigError::MissingBaseUrl {
        provider: provider.to_owned(),
        example: "http://localhost:8080/v1".to_owned(),
    })?;
    let is_ollama = provider == ollama::PROVIDER;
    let base = if is_ollama { base.trim_end_matches('/').trim_end_matches("/v1") } else { base };
    let path = if is_ollama { "/api/tags" } else { "/models" };
    let endpoint = Endpoint::new(base, path, Auth::Bearer, &[], config)?;
    let answer = parse_json("the list of models", &endpoint.get().await?)?;
    let list = answer.get(if is_ollama { "models" } else { "data" }).or(Some(&answer)).and_then(Value::as_array);
    let list = list.ok_or_else(|| ModelError::protocol("the answer has no list of models"))?;
    Ok(list.iter().filter_map(served).collect())
}

fn served(model: &Value) -> Option<ServedModel> {
    let name = ["id", "model", "name"].iter().find_map(|key| model.get(*key)?.as_str())?;
    // vLLM, llama.cpp, and services that say it.
    let sizes = ["/max_model_len", "/meta/n_ctx", "/meta/n_ctx_train", "/context_length", "/context_window"];
    let context_window = sizes.iter().find_map(|size| model.pointer(size)?.as_u64());
    Some(ServedModel { name: name.to_owned(), context_window })
}
