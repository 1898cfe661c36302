//! Lists the models of a server.

use deepagents_core::model::ModelError;
use serde_json::Value;

use crate::config::{ConfigError, ModelConfig};
use crate::http::{Auth, Endpoint};
use crate::openai::Dialect;
use crate::registry::providers;
use crate::{anthropic, gemini, interactions, json, ollama};

/// A model that a server provides.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServedModel {
    /// Its name on the server: the part of a full name after the colon.
    pub name: String,
    /// Context window in tokens, if the server reports it.
    pub context_window: Option<u64>,
}

/// Reason the models of a server could not be listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server did not respond, or its response could not be read.
    #[error(transparent)]
    Call(#[from] ModelError),
}

/// Lists the models of a server with the provider's own headers: for Ollama through its own API, for all others
/// (llama.cpp, vLLM, most services) through `/models`.
///
/// # Errors
/// Returns an error if there is no address, or if the server cannot be reached, refuses, or sends an unexpected
/// response.
pub async fn served_models(provider: &str, config: &ModelConfig) -> Result<Vec<ServedModel>, DiscoveryError> {
    let usual = providers().into_iter().find(|known| known.name == provider).and_then(|known| known.base_url);
    let base = config.base_url_or(usual, provider, "http://localhost:8080/v1")?;
    let base = base.trim_end_matches('/');
    // Users may give Ollama the address of its OpenAI-compatible API, and Anthropic's either way.
    let root = base.strip_suffix("/v1").unwrap_or(base);
    // The lists of Anthropic and Google have pages; this is their largest.
    let endpoint = match provider {
        ollama::PROVIDER => Endpoint::new(root, "/api/tags", Auth::Bearer, &[], config),
        anthropic::PROVIDER => {
            let auth = Auth::Header(anthropic::KEY_HEADER);
            Endpoint::new(root, "/v1/models?limit=1000", auth, &[anthropic::VERSION], config)
        }
        gemini::PROVIDER | interactions::PROVIDER => {
            Endpoint::new(base, "/models?pageSize=1000", Auth::Header(gemini::KEY_HEADER), &[], config)
        }
        _ => {
            let auth = Dialect::of_service(provider).map_or(Auth::Bearer, |dialect| dialect.auth());
            Endpoint::new(base, "/models", auth, &[], config)
        }
    }?;
    let answer = json::parse("the list of models", &endpoint.ask(&endpoint.url, None).await?)?;
    let list = ["data", "models"].iter().find_map(|key| answer.get(*key)).unwrap_or(&answer).as_array();
    let list = list.ok_or_else(|| ModelError::protocol("the answer has no list of models"))?;
    // Google lists its models by their paths. Elsewhere `models/` may be a folder that is part of the name.
    let prefix = if matches!(provider, gemini::PROVIDER | interactions::PROVIDER) { "models/" } else { "" };
    Ok(list.iter().filter_map(|model| served(model, prefix)).collect())
}

fn served(model: &Value, prefix: &str) -> Option<ServedModel> {
    let name = ["id", "model", "name"].iter().find_map(|key| model.get(*key)?.as_str())?;
    // Fields of vLLM, llama.cpp, Google, and services that report it.
    let sizes = [
        "/max_model_len",
        "/meta/n_ctx",
        "/meta/n_ctx_train",
        "/context_length",
        "/context_window",
        "/inputTokenLimit",
    ];
    let context_window = sizes.iter().find_map(|size| model.pointer(size)?.as_u64());
    Some(ServedModel { name: name.strip_prefix(prefix).unwrap_or(name).to_owned(), context_window })
}
