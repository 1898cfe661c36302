//! Anthropic's Messages API.

mod blocks;
mod chunks;
mod decode;
mod encode;
mod turns;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use deepagents_core::model::{ModelError, ModelRequest};
use serde_json::json;

pub(crate) use self::encode::thinks;
use crate::body::RequestBody;
use crate::client::{HttpModel, Target};
use crate::config::{ConfigError, ModelConfig};
use crate::gemini::VERTEX_EXAMPLE;
use crate::http::{AnswerDecoder, Auth, Endpoint, TokenCount, Wire, fields_of};

/// Name of this wire in [`Origin::api`](deepagents_core::message::Origin::api).
pub const API: &str = "anthropic-messages";
/// Name of the provider in the registry and in [`Origin::provider`](deepagents_core::message::Origin::provider).
pub const PROVIDER: &str = "anthropic";
/// Default base URL.
pub const BASE_URL: &str = "https://api.anthropic.com";
/// Header for the key.
pub(crate) const KEY_HEADER: &str = "x-api-key";
/// Header with the version of the API.
pub(crate) const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");
/// Maximum output tokens if neither the request nor the catalogue sets a limit.
const DEFAULT_MAX_TOKENS: u64 = 8192;
/// Upper limit of the default for output tokens: more would matter only for runaway responses.
const MAX_DEFAULT_TOKENS: u64 = 32_000;
/// Request fields that count towards tokens.
const COUNTED: [&str; 9] = [
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "mcp_servers",
    "context_management",
];

/// A model of the Messages API, plain or streamed.
///
/// The model's own output is sent back verbatim and in order: thinking blocks with their signatures, server tool items.
/// Cache marks become `cache_control`. Enable thinking through a request's extra fields.
///
/// ```
/// use deepagents_models::{Anthropic, ModelConfig};
/// let config = ModelConfig { api_key: Some("sk-ant-…".replace('…', "x").into()), ..ModelConfig::default() };
/// let model = Anthropic::new("claude-sonnet-4-5", config)?;
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
pub type Anthropic = HttpModel<Messages>;

impl Anthropic {
    /// Creates a model with this name. Does not connect until the first call.
    ///
    /// # Errors
    /// Returns an error if an address or a header cannot be used.
    pub fn new(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let base = config.base_url.as_deref().unwrap_or(BASE_URL).trim_end_matches('/');
        let path = if base.ends_with("/v1") { "/messages" } else { "/v1/messages" };
        let endpoint = Endpoint::new(base, path, Auth::Header(KEY_HEADER), &[VERSION], &config)?;
        Ok(Self::on(Host::Anthropic, &model.into(), endpoint, config))
    }

    /// Creates a model on Google's Vertex. The address is that of a project's location; the credentials are tokens.
    ///
    /// # Errors
    /// Returns an error if there is no address, or if an address or a header cannot be used.
    pub fn on_vertex(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let model = model.into();
        let base = config.base_url_or(None, Host::Vertex.provider(), VERTEX_EXAMPLE)?;
        let method = if config.streaming.unwrap_or(true) { "streamRawPredict" } else { "rawPredict" };
        let path = format!("/publishers/anthropic/models/{model}:{method}");
        let endpoint = Endpoint::new(base, &path, Auth::Bearer, &[], &config)?;
        Ok(Self::on(Host::Vertex, &model, endpoint, config))
    }

    /// Creates a model on Amazon Bedrock with the model's native API. For the address and credentials, see
    /// [`Bedrock`](crate::Bedrock).
    ///
    /// # Errors
    /// Returns an error if there is no address, or if an address or a header cannot be used.
    pub fn on_bedrock(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let model = model.into();
        let method = if config.streaming.unwrap_or(true) { "invoke-with-response-stream" } else { "invoke" };
        let endpoint = crate::bedrock::endpoint(Host::Bedrock.provider(), &model, method, &config)?;
        Ok(Self::on(Host::Bedrock, &model, endpoint, config))
    }

    fn on(host: Host, model: &str, endpoint: Endpoint, config: ModelConfig) -> Self {
        let mut profile = config.profile(model);
        profile.cache_marks = true;
        let max_tokens = profile.max_output.map_or(DEFAULT_MAX_TOKENS, |most| most.min(MAX_DEFAULT_TOKENS));
        Self::at(endpoint, [API, host.provider(), model], (profile, config.extra), Messages { host, max_tokens })
    }
}

/// Host of the API; hosts other than Anthropic have the model in the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    Anthropic,
    Vertex,
    Bedrock,
}

impl Host {
    /// Name of the provider in the registry and in [`Origin::provider`](deepagents_core::message::Origin::provider).
    fn provider(self) -> &'static str {
        match self {
            Self::Anthropic => PROVIDER,
            Self::Vertex => "vertex-anthropic",
            Self::Bedrock => "bedrock-anthropic",
        }
    }

    /// Returns the API version, if it belongs in the body.
    fn version(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => None,
            Self::Vertex => Some("vertex-2023-10-16"),
            Self::Bedrock => Some("bedrock-2023-05-31"),
        }
    }
}

/// Wire of the Messages API on a host.
#[derive(Debug)]
pub struct Messages {
    host: Host,
    max_tokens: u64,
}

impl Wire for Target<Messages> {
    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
        encode::body(self, request, stream)
    }

    fn token_count(&self, endpoint: &Endpoint, request: &ModelRequest) -> Result<Option<TokenCount>, ModelError> {
        let body = encode::body(self, request, false)?;
        let path = endpoint.url.path();
        Ok(Some(match self.wire.host {
            Host::Anthropic => TokenCount {
                path: format!("{path}/count_tokens"),
                body: fields_of(&body, &COUNTED)?,
                field: "input_tokens",
            },
            Host::Vertex => {
                let mut body = fields_of(&body, &COUNTED)?;
                body.insert("model".to_owned(), self.origin.model.as_str().into());
                let models = path.rsplit_once('/').map_or(path, |(models, _)| models);
                TokenCount { path: format!("{models}/count-tokens:rawPredict"), body, field: "input_tokens" }
            }
            Host::Bedrock => crate::bedrock::token_count(
                endpoint,
                json!({"invokeModel": {"body": BASE64_STANDARD.encode(body.to_vec())}}),
            ),
        }))
    }

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        match self.wire.host {
            Host::Bedrock => Box::<chunks::ChunkDecoder>::default(),
            _ => Box::<decode::MessageDecoder>::default(),
        }
    }
}
