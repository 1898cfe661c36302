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

/// The name of this wire in [`Origin::api`].
pub const API: &str = "ollama";
/// The provider's name in the registry and in [`Origin::provider`].
pub const PROVIDER: &str = "ollama";
/// The address when none is given.
pub const BASE_URL: &str = "http://localhost:11434";

/// A model behind Ollama's own API, plain or streamed.
///
/// The server reads as much of a prompt as `num_ctx` says and cuts the rest in silence, so each request says how much
/// it needs: enough for itself and an answer, never less than before (a change loads the model again), and at most
/// what the model can read, which `/api/show` tells once. A longer request is a
/// [`ModelError::ContextLength`] that is never sent. An extra field `options.num_ctx` settles it instead. `think` and
/// `keep_alive` are extra fields too.
///
/// ```
/// use deepagents_models::{ModelConfig, Ollama};
/// let model = Ollama::new("qwen3:4b", ModelConfig::default())?;
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
pub type Ollama = HttpModel<OllamaChat>;

impl Ollama {
    /// A model of this name. Nothing is opened until the first call.
    ///
    /// # Errors
    /// An address or a header that cannot be used.
    pub fn new(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let model = model.into();
        let base = config.base_url.as_deref().unwrap_or(BASE_URL).trim_end_matches('/');
        // People know the address of the compatible API too.
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

/// The wire of Ollama's API: what the encoder and decoder need to know of the model.
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
