//! Google's Gemini API (`generateContent`), by key or on Vertex.

mod contents;
mod decode;
mod encode;
mod parts;

use std::sync::Arc;

use deepagents_core::message::Origin;
use deepagents_core::model::{ModelError, ModelRequest};
use serde_json::{Map, Value};

use crate::body::{RequestBody, Written};
use crate::client::HttpModel;
use crate::config::{ConfigError, ModelConfig};
use crate::decoded::Decoded;
use crate::http::{AnswerDecoder, Auth, Endpoint, TokenCount, Wire, fields_of};

/// The name of this wire in [`Origin::api`].
pub const API: &str = "gemini";
/// The provider's name in the registry and in [`Origin::provider`], by key.
pub const PROVIDER: &str = "google";
/// The provider's name on Vertex.
pub const VERTEX: &str = "vertex";
/// The address when none is given.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";
/// What an address on Vertex looks like.
pub(crate) const VERTEX_EXAMPLE: &str =
    "https://us-central1-aiplatform.googleapis.com/v1/projects/PROJECT/locations/us-central1";

/// A model behind Gemini's API, plain or streamed.
///
/// The parts of an answer go back to it as they came, each with the thought signature that came on it. An
/// extra field `cachedContent` names a cached prompt, which then takes the place of system prompt and tools.
///
/// ```
/// use deepagents_models::{Credentials, Gemini, ModelConfig};
/// let config = ModelConfig { api_key: Some("a key".into()), ..ModelConfig::default() };
/// let model = Gemini::new("gemini-2.5-flash", config)?;
/// // On Vertex the address names project and place, and a source gives out tokens.
/// let base_url = Some("https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1".into());
/// let config = ModelConfig { api_key: Some(Credentials::token("ya29.x")), base_url, ..ModelConfig::default() };
/// let model = Gemini::on_vertex("gemini-2.5-pro", config)?;
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
pub type Gemini = HttpModel<GenerateContent>;

impl Gemini {
    /// A model of this name, by key. Nothing is opened until the first call.
    ///
    /// # Errors
    /// An address or a header that cannot be used.
    pub fn new(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let base = config.base_url.clone().unwrap_or_else(|| BASE_URL.to_owned());
        Self::at(PROVIDER, &base, model.into(), config)
    }

    /// A model of this name on Vertex; the address is that of a project's location.
    ///
    /// # Errors
    /// No address; an address or a header that cannot be used.
    pub fn on_vertex(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let base = config.base_url.clone().ok_or_else(|| ConfigError::MissingBaseUrl {
            provider: VERTEX.to_owned(),
            example: VERTEX_EXAMPLE.to_owned(),
        })?;
        let base = format!("{}/publishers/google", base.trim_end_matches('/'));
        Self::at(VERTEX, &base, model.into(), config)
    }

    fn at(provider: &str, base: &str, model: String, config: ModelConfig) -> Result<Self, ConfigError> {
        let method = if config.streaming.unwrap_or(true) { "streamGenerateContent?alt=sse" } else { "generateContent" };
        let path = format!("/models/{}:{method}", model.strip_prefix("models/").unwrap_or(&model));
        let endpoint = Endpoint::new(base, &path, Auth::Header("x-goog-api-key"), &[], &config)?;
        Ok(Self {
            name: format!("{provider}:{model}"),
            endpoint: Arc::new(endpoint),
            profile: config.profile(&model),
            wire: Arc::new(GenerateContent {
                origin: Origin { api: API.to_owned(), provider: provider.to_owned(), model },
                extra: config.extra,
                written: Written::default(),
            }),
        })
    }
}

/// The fields of a request that are counted.
const COUNTED: [&str; 6] =
    ["contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "cachedContent"];

/// The wire of `generateContent`: what the encoder and decoder need to know of the model.
#[derive(Debug)]
pub struct GenerateContent {
    origin: Origin,
    extra: Map<String, Value>,
    written: Written,
}

impl Wire for GenerateContent {
    fn encode(&self, request: &ModelRequest, _stream: bool) -> Result<RequestBody, ModelError> {
        encode::body(self, request)
    }

    fn token_count(&self, endpoint: &Endpoint, request: &ModelRequest) -> Result<Option<TokenCount>, ModelError> {
        let body = encode::body(self, request)?;
        let path = endpoint.url.path();
        let model = path.rsplit_once(':').map_or(path, |(model, _)| model);
        let body = if self.origin.provider == VERTEX {
            fields_of(&body, &["contents", "systemInstruction", "tools"])?
        } else {
            let name = model.rsplit_once('/').map_or(model, |(_, name)| name);
            let mut whole = Map::from_iter([("model".to_owned(), format!("models/{name}").into())]);
            whole.extend(fields_of(&body, &COUNTED)?);
            Map::from_iter([("generateContentRequest".to_owned(), whole.into())])
        };
        Ok(Some(TokenCount { path: format!("{model}:countTokens"), body, field: "totalTokens" }))
    }

    fn decode(&self, body: &[u8]) -> Result<Decoded, ModelError> {
        decode::whole(&self.origin, body)
    }

    fn answer_decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::new(decode::ContentDecoder::new(self.origin.clone()))
    }
}
