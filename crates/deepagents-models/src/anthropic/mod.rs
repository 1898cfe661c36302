//! Anthropic's Messages API.

mod blocks;
mod decode;
mod encode;
mod turns;
mod written;

use std::sync::Arc;

use deepagents_core::message::Origin;
use deepagents_core::model::{ModelError, ModelRequest};
use serde_json::{Map, Value};

use self::written::Written;
use crate::catalogue;
use crate::client::HttpModel;
use crate::config::{ConfigError, ModelConfig};
use crate::decoded::Decoded;
use crate::http::{AnswerDecoder, AuthHeader, Endpoint, Wire};

/// The name of this wire in [`Origin::api`].
pub const API: &str = "anthropic-messages";
/// The provider's name in the registry and in [`Origin::provider`].
pub const PROVIDER: &str = "anthropic";
/// The address when none is given.
pub const BASE_URL: &str = "https://api.anthropic.com";
/// Tokens an answer may hold when neither the request nor the catalogue says otherwise.
const DEFAULT_MAX_TOKENS: u64 = 8192;
/// What is asked for at most without being told: more would only matter to answers that run away.
const USUAL_MAX_TOKENS: u64 = 32_000;

/// A model behind the Messages API, plain or streamed.
///
/// What the model said is sent back to it verbatim: thinking blocks with their signatures, server tool items, in
/// their order. Cache marks become `cache_control`. Thinking is switched on through a request's extra fields.
///
/// ```
/// use deepagents_models::{Anthropic, ModelConfig};
/// let config = ModelConfig { api_key: Some("sk-ant-…".replace('…', "x")), ..ModelConfig::default() };
/// let model = Anthropic::new("claude-sonnet-4-5", config)?;
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
pub type Anthropic = HttpModel<Messages>;

impl Anthropic {
    /// A model of this name. Nothing is opened until the first call.
    ///
    /// # Errors
    /// An address or a header that cannot be used.
    pub fn new(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let model = model.into();
        let base = config.base_url.as_deref().unwrap_or(BASE_URL).trim_end_matches('/');
        let path = if base.ends_with("/v1") { "/messages" } else { "/v1/messages" };
        let fixed = [("anthropic-version", "2023-06-01")];
        let endpoint = Endpoint::new(base, path, AuthHeader::Named("x-api-key"), &fixed, &config)?;
        let mut profile = catalogue::profile(&model);
        profile.cache_marks = true;
        profile.context_window = config.context_window.or(profile.context_window);
        Ok(Self {
            name: format!("{PROVIDER}:{model}"),
            endpoint: Arc::new(endpoint),
            wire: Arc::new(Messages {
                max_tokens: profile.max_output.map_or(DEFAULT_MAX_TOKENS, |most| most.min(USUAL_MAX_TOKENS)),
                origin: Origin { api: API.to_owned(), provider: PROVIDER.to_owned(), model },
                extra: config.extra,
                written: Written::default(),
            }),
            profile,
        })
    }
}

/// The wire of the Messages API: what the encoder and decoder need to know of the model.
#[derive(Debug)]
pub struct Messages {
    origin: Origin,
    max_tokens: u64,
    extra: Map<String, Value>,
    written: Written,
}

impl Wire for Messages {
    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<Vec<u8>, ModelError> {
        encode::body(self, request, stream)
    }

    fn decode(&self, body: &[u8]) -> Result<Decoded, ModelError> {
        decode::whole(&self.origin, body)
    }

    fn answer_decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::new(decode::MessageDecoder::new(self.origin.clone()))
    }
}
