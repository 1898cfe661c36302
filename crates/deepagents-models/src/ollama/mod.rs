//! Ollama's own API (`/api/chat`).

mod context;
mod decode;
mod encode;
mod messages;

use std::sync::Arc;

use deepagents_core::message::Origin;
use deepagents_core::model::{ModelError, ModelRequest};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use self::context::ContextSize;
use crate::body::{RequestBody, Written};
use crate::client::HttpModel;
use crate::config::{ConfigError, ModelConfig};
use crate::decoded::Decoded;
use crate::http::{AnswerDecoder, Auth, Endpoint, Wire};

/// Name of this wire in [`Origin::api`].
pub const API: &str = "ollama";
/// Name of the provider in the registry and in [`Origin::provider`].
pub const PROVIDER: &str = "ollama";
/// Default base URL.
pub const BASE_URL: &str = "http://localhost:11434";

/// A model of Ollama's own API, plain or streamed.
///
/// By default, the server reads only `num_ctx` tokens of a prompt and silently drops the rest. So each request sets the
/// size it needs: enough for itself and a response, never less than before (a change reloads the model), and at most
/// what the model supports, which is asked once from `/api/show`.
///
/// A prompt estimated at more than twice that maximum fails with [`ModelError::ContextLength`] without being sent. Set
/// the extra field `options.num_ctx` to override the size. `think` and `keep_alive` are extra fields too.
///
/// ```
/// use deepagents_models::{ModelConfig, Ollama};
/// let model = Ollama::new("qwen3:4b", ModelConfig::default())?;
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
pub type Ollama = HttpModel<OllamaChat>;

impl Ollama {
    /// Creates a model with this name. Does not connect until the first call.
    ///
    /// # Errors
    /// Returns an error if an address or a header cannot be used.
    pub fn new(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let model = model.into();
        let base = config.base_url.as_deref().unwrap_or(BASE_URL).trim_end_matches('/');
        // Users may give the address of the OpenAI-compatible API.
        let base = base.strip_suffix("/v1").unwrap_or(base);
        let endpoint = Endpoint::new(base, "/api/chat", Auth::Bearer, &[], &config)?;
        let profile = config.profile(&model);
        Ok(Self {
            name: format!("{PROVIDER}:{model}"),
            endpoint: Arc::new(endpoint),
            wire: Arc::new(OllamaChat {
                context: ContextSize::new(profile.context_window),
                origin: Origin { api: API.to_owned(), provider: PROVIDER.to_owned(), model },
                extra: config.extra,
                written: Written::default(),
            }),
            profile,
        })
    }
}

/// Wire of Ollama's API: what the encoder and decoder need to know of the model.
#[derive(Debug)]
pub struct OllamaChat {
    origin: Origin,
    extra: Map<String, Value>,
    context: ContextSize,
    written: Written,
}

impl Wire for OllamaChat {
    fn prepare<'a>(&'a self, endpoint: &'a Endpoint) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(async {
            if self.extra.get("options").is_none_or(|options| options.get("num_ctx").is_none()) {
                self.context.learn(endpoint, &self.origin.model).await;
            }
            Ok(())
        })
    }

    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
        encode::body(self, request, stream)
    }

    fn decode(&self, body: &[u8]) -> Result<Decoded, ModelError> {
        decode::whole(&self.origin, body)
    }

    fn answer_decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::new(decode::ChatDecoder::new(self.origin.clone()))
    }
}
