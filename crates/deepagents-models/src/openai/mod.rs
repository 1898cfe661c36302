//! OpenAI's Chat Completions API, and the services that speak dialects of it.

mod call_id;
mod calls;
mod dialect;
mod encode;
mod fold;
mod items;
mod media;
mod part;
mod read;
mod said;

use std::sync::Arc;

use deepagents_core::message::Origin;
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest};
use futures_core::stream::BoxStream;
use serde_json::{Map, Value};

pub use dialect::{CallIds, Dialect, OutputForm, ReasoningForm};

use crate::catalogue;
use crate::config::{ConfigError, ModelConfig};
use crate::decoded::Decoded;
use crate::http::{AuthHeader, Endpoint, Fold, Wire, call, decode_recorded};

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
#[derive(Clone, Debug)]
pub struct OpenAiChat {
    name: String,
    endpoint: Arc<Endpoint>,
    wire: Arc<Chat>,
    profile: ModelProfile,
}

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
        let auth = dialect.key_header.map_or(AuthHeader::Bearer, AuthHeader::Named);
        let endpoint = Endpoint::new(base, "/chat/completions", auth, &[], &config)?;
        // A gateway hands the request to services of other wires, which need arguments that are JSON and may know marks.
        dialect.malformed_arguments &= !model.starts_with("anthropic/") && !model.starts_with("google/");
        dialect.cache_marks &= model.starts_with("anthropic/");
        let mut profile = catalogue::profile(&model);
        profile.cache_marks = dialect.cache_marks;
        if dialect.output != OutputForm::JsonSchema {
            profile.structured_output = Some(false);
        }
        Ok(Self {
            name: format!("{}:{model}", dialect.name),
            endpoint: Arc::new(endpoint),
            wire: Arc::new(Chat {
                origin: Origin { api: API.to_owned(), provider: dialect.name.to_owned(), model },
                dialect,
                extra: config.extra,
            }),
            profile,
        })
    }

    /// The body that a request is sent with.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] for what the service could not take.
    pub fn request_body(&self, request: &ModelRequest) -> Result<Vec<u8>, ModelError> {
        self.wire.encode(request, self.endpoint.streaming)
    }

    /// Reads a recorded answer, plain or streamed, exactly as a live one is read.
    ///
    /// # Errors
    /// What a live call would fail with, retries aside.
    pub fn decode(
        &self,
        status: u16,
        headers: &reqwest::header::HeaderMap,
        body: &[u8],
    ) -> Result<Decoded, ModelError> {
        decode_recorded(&*self.wire, status, headers, body)
    }
}

impl ChatModel for OpenAiChat {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> ModelProfile {
        self.profile.clone()
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        call(Arc::clone(&self.endpoint), Arc::clone(&self.wire) as Arc<dyn Wire>, request)
    }
}

/// The wire: what the encoder and decoder need to know of the model.
#[derive(Debug)]
struct Chat {
    origin: Origin,
    dialect: Dialect,
    extra: Map<String, Value>,
}

impl Wire for Chat {
    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<Vec<u8>, ModelError> {
        encode::body(self, request, stream)
    }

    fn decode(&self, body: &[u8]) -> Result<Decoded, ModelError> {
        fold::whole(&self.origin, &self.dialect, body)
    }

    fn fold(&self) -> Box<dyn Fold> {
        Box::new(fold::StreamFold::new(self.origin.clone(), self.dialect.clone()))
    }
}
