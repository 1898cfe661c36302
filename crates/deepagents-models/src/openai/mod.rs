//! OpenAI's Chat Completions API, and the services that speak dialects of it.

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

/// The name of this wire in [`Origin::api`].
pub const API: &str = "openai-chat";

/// A model behind Chat Completions, plain or streamed.
///
/// What the model said goes back to the same service as it came, reasoning and the text of arguments included, as far
/// as its [`Dialect`] takes it. Images in tool results, which this API does not know, follow in a user message.
///
/// ```
/// use deepagents_models::{Dialect, ModelConfig, OpenAiChat};
/// let dialect = Dialect::named("groq").ok_or("not listed")?;
/// let model = OpenAiChat::new(dialect, "openai/gpt-oss-120b", ModelConfig::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type OpenAiChat = HttpModel<Chat>;

impl OpenAiChat {
    /// A model of this name. Nothing is opened until the first call.
    ///
    /// # Errors
    /// No address where the service has no fixed one; an address or a header that cannot be used.
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
        // A gateway hands the request to services of other wires, which need arguments that are JSON and may know marks.
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

/// The wire of Chat Completions: what the encoder and decoder need to know of the model.
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
