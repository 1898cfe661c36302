//! Google's Gemini API (`generateContent`), with an API key or on Vertex.

mod contents;
mod decode;
mod encode;
mod parts;

use deepagents_core::model::{ModelError, ModelRequest};
use serde_json::Map;

use crate::body::{self, Head, RequestBody};
use crate::client::{HttpModel, Target};
use crate::config::{ConfigError, ModelConfig};
use crate::http::{AnswerDecoder, Auth, Endpoint, TokenCount, Wire, fields_of};

/// Name of this wire in [`Origin::api`](deepagents_core::message::Origin::api).
pub const API: &str = "gemini";
/// Name of the provider with an API key, in the registry and in
/// [`Origin::provider`](deepagents_core::message::Origin::provider).
pub const PROVIDER: &str = "google";
/// Name of the provider on Vertex.
pub const VERTEX: &str = "vertex";
/// Default base URL.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";
/// Header for the key.
pub(crate) const KEY_HEADER: &str = "x-goog-api-key";
/// An example address on Vertex.
pub(crate) const VERTEX_EXAMPLE: &str =
    "https://us-central1-aiplatform.googleapis.com/v1/projects/PROJECT/locations/us-central1";

/// A model of Gemini's API, plain or streamed.
///
/// The parts of a response are sent back unchanged, each with its thought signature. The extra field `cachedContent`
/// names a cached prompt, which then replaces the system prompt and tools.
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
    /// Creates a model with this name, accessed with an API key. Does not connect until the first call.
    ///
    /// # Errors
    /// Returns an error if an address or a header cannot be used.
    pub fn new(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let base = config.base_url.clone().unwrap_or_else(|| BASE_URL.to_owned());
        Self::below(&base, PROVIDER, &model.into(), config)
    }

    /// Creates a model with this name on Vertex. The address is that of a project's location.
    ///
    /// # Errors
    /// Returns an error if there is no address, or if an address or a header cannot be used.
    pub fn on_vertex(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let base = config.base_url_or(None, VERTEX, VERTEX_EXAMPLE)?;
        let base = format!("{}/publishers/google", base.trim_end_matches('/'));
        Self::below(&base, VERTEX, &model.into(), config)
    }

    fn below(base: &str, provider: &str, model: &str, config: ModelConfig) -> Result<Self, ConfigError> {
        let method = if config.streaming.unwrap_or(true) { "streamGenerateContent?alt=sse" } else { "generateContent" };
        let name = model.strip_prefix("models/").unwrap_or(model);
        let path = format!("/models/{name}:{method}");
        let endpoint = Endpoint::new(base, &path, Auth::Header(KEY_HEADER), &[], &config)?;
        let mut profile = config.profile(model);
        // These models reject a schema for the answer beside tools, and most requests have tools.
        if ["gemini-1.", "gemini-2."].iter().any(|series| name.starts_with(series)) {
            profile.structured_output = Some(false);
        }
        Ok(Self::at(endpoint, [API, provider, model], (profile, config.extra), GenerateContent))
    }
}

/// Request fields that count towards tokens.
const COUNTED: [&str; 6] =
    ["contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "cachedContent"];

/// Wire of `generateContent`.
#[derive(Debug)]
pub struct GenerateContent;

impl Wire for Target<GenerateContent> {
    /// Encodes the body of a request. The URL requests a stream.
    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
        let head = Head::new(self, request, stream);
        head.body(head.tools_and_system()?, ("contents", &[]), usize::MAX, |known| {
            Ok(body::exact(contents::contents(request, known.messages(), &self.origin)?, &parts::ARGS))
        })
    }

    fn token_count(&self, endpoint: &Endpoint, request: &ModelRequest) -> Result<Option<TokenCount>, ModelError> {
        let body = self.encode(request, false)?;
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

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::<decode::ContentDecoder>::default()
    }
}
