//! Google's Interactions API, used statelessly: the provider stores nothing, and its steps are sent back one by one.

mod decode;
mod encode;
mod steps;

use std::sync::Arc;

use deepagents_core::message::Origin;
use deepagents_core::model::{ModelError, ModelRequest};
use serde_json::{Map, Value};

use crate::body::{RequestBody, Written};
use crate::client::HttpModel;
use crate::config::{ConfigError, ModelConfig};
use crate::decoded::Decoded;
use crate::gemini::BASE_URL;
use crate::http::{AnswerDecoder, Auth, Endpoint, Wire};

/// Name of this wire in [`Origin::api`].
pub const API: &str = "gemini-interactions";
/// Name of the provider in the registry and in [`Origin::provider`].
pub const PROVIDER: &str = "google-interactions";

/// A model of Google's Interactions API, plain or streamed.
///
/// Requests set `store: false`, so each step from the service (thoughts with their signature, text, calls, its own
/// tools) is sent back verbatim and in order. For everything else, see [`Gemini`](crate::Gemini).
///
/// ```
/// use deepagents_models::{Interactions, ModelConfig};
/// let config = ModelConfig { api_key: Some("a key".into()), ..ModelConfig::default() };
/// let model = Interactions::new("gemini-3-flash-preview", config)?;
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
pub type Interactions = HttpModel<Steps>;

impl Interactions {
    /// Creates a model with this name. Does not connect until the first call.
    ///
    /// # Errors
    /// Returns an error if an address or a header cannot be used.
    pub fn new(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let model = model.into();
        let base = config.base_url.as_deref().unwrap_or(BASE_URL);
        let path = if config.streaming.unwrap_or(true) { "/interactions?alt=sse" } else { "/interactions" };
        let endpoint = Endpoint::new(base, path, Auth::Header("x-goog-api-key"), &[], &config)?;
        Ok(Self {
            name: format!("{PROVIDER}:{model}"),
            endpoint: Arc::new(endpoint),
            profile: config.profile(&model),
            wire: Arc::new(Steps {
                origin: Origin { api: API.to_owned(), provider: PROVIDER.to_owned(), model },
                extra: config.extra,
                written: Written::default(),
            }),
        })
    }
}

/// Wire of the Interactions API: what the encoder and decoder need to know of the model.
#[derive(Debug)]
pub struct Steps {
    origin: Origin,
    extra: Map<String, Value>,
    written: Written,
}

impl Wire for Steps {
    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
        encode::body(self, request, stream)
    }

    fn decode(&self, body: &[u8]) -> Result<Decoded, ModelError> {
        decode::whole(&self.origin, body)
    }

    fn answer_decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::new(decode::InteractionDecoder::new(self.origin.clone()))
    }
}
