//! Ollama's own API (`/api/chat`).

mod context;
mod decode;
mod encode;
mod messages;

use deepagents_core::model::{ModelError, ModelRequest};
use futures_util::future::BoxFuture;

use self::context::ContextSize;
use crate::body::RequestBody;
use crate::client::{HttpModel, Target};
use crate::config::{ConfigError, ModelConfig};
use crate::http::{AnswerDecoder, Auth, Endpoint, Wire};

/// Name of this wire in [`Origin::api`](deepagents_core::message::Origin::api).
pub const API: &str = "ollama";
/// Name of the provider in the registry and in [`Origin::provider`](deepagents_core::message::Origin::provider).
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
        let context = ContextSize::new(profile.context_window);
        Ok(Self::at(endpoint, [API, PROVIDER, &model], (profile, config.extra), OllamaChat { context }))
    }
}

/// Wire of Ollama's API, for a model with a context size.
#[derive(Debug)]
pub struct OllamaChat {
    context: ContextSize,
}

impl Wire for Target<OllamaChat> {
    fn prepare<'a>(&'a self, endpoint: &'a Endpoint) -> BoxFuture<'a, ()> {
        Box::pin(async {
            if self.extra.get("options").is_none_or(|options| options.get("num_ctx").is_none()) {
                self.wire.context.learn(endpoint, &self.origin.model).await;
            }
        })
    }

    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
        encode::body(self, request, stream)
    }

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::<decode::ChatDecoder>::default()
    }
}
