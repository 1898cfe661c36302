//! OpenAI's Chat Completions API, and services with dialects of it.

mod assistant;
mod call_id;
mod calls;
mod decode;
mod dialect;
mod encode;
mod items;
mod part;
mod read;
mod services;

use std::sync::Arc;

use deepagents_core::message::Origin;
use deepagents_core::model::{ModelError, ModelRequest};
use serde_json::{Map, Value};

pub use dialect::{CallIds, Dialect, OutputForm, ReasoningForm};

use crate::body::{RequestBody, Written};
use crate::client::HttpModel;
use crate::config::{ConfigError, ModelConfig};
use crate::decoded::Decoded;
use crate::http::{AnswerDecoder, Auth, Endpoint, Wire};

/// Name of this wire in [`Origin::api`].
pub const API: &str = "openai-chat";

/// A model of Chat Completions, plain or streamed.
///
/// The model's output is sent back to the same service unchanged, including reasoning and the text of arguments, as far
/// as its [`Dialect`] accepts it. The API does not support images in tool results, so they follow in a user message.
///
/// ```
/// use deepagents_models::{Dialect, ModelConfig, OpenAiChat};
/// let dialect = Dialect::named("groq").ok_or("not listed")?;
/// let model = OpenAiChat::new(dialect, "openai/gpt-oss-120b", ModelConfig::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type OpenAiChat = HttpModel<Chat>;

impl OpenAiChat {
    /// Creates a model with this name. Does not connect until the first call.
    ///
    /// # Errors
    /// Returns an error if there is no address and the service has no fixed one, or if an address or a header cannot be
    /// used.
    pub fn new(mut dialect: Dialect, model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let model = model.into();
        let Some(base) = config.base_url.as_deref().or(dialect.base_url) else {
            return Err(ConfigError::MissingBaseUrl {
                provider: dialect.name.to_owned(),
                example: "https://models.example/v1".to_owned(),
            });
        };
        let auth = dialect.key_header.map_or(Auth::Bearer, Auth::Header);
        let endpoint = Endpoint::new(base, "/chat/completions", auth, &[], &config)?;
        // A gateway forwards the request to services with other wires, which need valid JSON arguments and may support
        // marks.
        dialect.malformed_arguments &= !model.starts_with("anthropic/") && !model.starts_with("google/");
        dialect.cache_marks &= model.starts_with("anthropic/");
        let mut profile = config.profile(&model);
        profile.cache_marks = dialect.cache_marks;
        if dialect.output != OutputForm::JsonSchema {
            profile.structured_output = Some(false);
        }
        Ok(Self {
            name: format!("{}:{model}", dialect.name),
            endpoint: Arc::new(endpoint),
            wire: Arc::new(Chat {
                origin: Origin {
                    api: API.to_owned(),
                    provider: dialect.service.unwrap_or(dialect.name).to_owned(),
                    model,
                },
                dialect,
                extra: config.extra,
                written: Written::default(),
            }),
            profile,
        })
    }
}

/// Wire of Chat Completions: what the encoder and decoder need to know of the model.
#[derive(Debug)]
pub struct Chat {
    origin: Origin,
    dialect: Dialect,
    extra: Map<String, Value>,
    written: Written,
}

impl Wire for Chat {
    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
        encode::body(self, request, stream)
    }

    fn decode(&self, body: &[u8]) -> Result<Decoded, ModelError> {
        decode::whole(&self.origin, &self.dialect, body)
    }

    fn answer_decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::new(decode::MessageDecoder::new(self.origin.clone(), self.dialect.clone()))
    }
}
