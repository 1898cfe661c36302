//! Anthropic's Messages API.

mod blocks;
mod chunks;
mod decode;
mod encode;
mod turns;

use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use deepagents_core::message::Origin;
use deepagents_core::model::{ModelError, ModelRequest};
use serde_json::{Map, Value, json};

use crate::body::{RequestBody, Written};
use crate::client::HttpModel;
use crate::config::{ConfigError, ModelConfig};
use crate::decoded::Decoded;
use crate::http::{AnswerDecoder, Auth, Endpoint, TokenCount, Wire, fields_of};

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
/// The fields of a request that are counted.
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

/// A model behind the Messages API, plain or streamed.
///
/// What the model said is sent back to it verbatim: thinking blocks with their signatures, server tool items, in
/// their order. Cache marks become `cache_control`. Thinking is switched on through a request's extra fields.
///
/// ```
/// use deepagents_models::{Anthropic, ModelConfig};
/// let config = ModelConfig { api_key: Some("sk-ant-…".replace('…', "x").into()), ..ModelConfig::default() };
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
        let base = config.base_url.as_deref().unwrap_or(BASE_URL).trim_end_matches('/');
        let path = if base.ends_with("/v1") { "/messages" } else { "/v1/messages" };
        let fixed = [("anthropic-version", "2023-06-01")];
        let endpoint = Endpoint::new(base, path, Auth::Header("x-api-key"), &fixed, &config)?;
        Ok(Self::at(Host::Anthropic, model.into(), endpoint, config))
    }

    /// A model on Google's Vertex; the address is that of a project's location, the credentials are tokens.
    ///
    /// # Errors
    /// No address; an address or a header that cannot be used.
    pub fn on_vertex(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let model = model.into();
        let base = config.base_url.as_deref().ok_or_else(|| ConfigError::MissingBaseUrl {
            provider: Host::Vertex.provider().to_owned(),
            example: crate::gemini::VERTEX_EXAMPLE.to_owned(),
        })?;
        let method = if config.streaming.unwrap_or(true) { "streamRawPredict" } else { "rawPredict" };
        let path = format!("/publishers/anthropic/models/{model}:{method}");
        let endpoint = Endpoint::new(base, &path, Auth::Bearer, &[], &config)?;
        Ok(Self::at(Host::Vertex, model, endpoint, config))
    }

    /// A model on Amazon's Bedrock, by its native API; for the address and the credentials see
    /// [`Bedrock`](crate::Bedrock).
    ///
    /// # Errors
    /// No address; an address or a header that cannot be used.
    pub fn on_bedrock(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let model = model.into();
        let method = if config.streaming.unwrap_or(true) { "invoke-with-response-stream" } else { "invoke" };
        let endpoint = crate::bedrock::endpoint(Host::Bedrock.provider(), &model, method, &config)?;
        Ok(Self::at(Host::Bedrock, model, endpoint, config))
    }

    fn at(host: Host, model: String, endpoint: Endpoint, config: ModelConfig) -> Self {
        let mut profile = config.profile(&model);
        profile.cache_marks = true;
        Self {
            name: format!("{}:{model}", host.provider()),
            endpoint: Arc::new(endpoint),
            wire: Arc::new(Messages {
                max_tokens: profile.max_output.map_or(DEFAULT_MAX_TOKENS, |most| most.min(USUAL_MAX_TOKENS)),
                origin: Origin { api: API.to_owned(), provider: host.provider().to_owned(), model },
                host,
                extra: config.extra,
                written: if host == Host::Bedrock { Written::hashed() } else { Written::default() },
            }),
            profile,
        }
    }
}

/// Who serves the API; hosts other than Anthropic name the model in the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    Anthropic,
    Vertex,
    Bedrock,
}

impl Host {
    /// The provider's name in the registry and in [`Origin::provider`].
    fn provider(self) -> &'static str {
        match self {
            Self::Anthropic => PROVIDER,
            Self::Vertex => "vertex-anthropic",
            Self::Bedrock => "bedrock-anthropic",
        }
    }

    /// The version of the API, where it stands in the body.
    fn version(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => None,
            Self::Vertex => Some("vertex-2023-10-16"),
            Self::Bedrock => Some("bedrock-2023-05-31"),
        }
    }
}

/// The wire of the Messages API: what the encoder and decoder need to know of the model.
#[derive(Debug)]
pub struct Messages {
    origin: Origin,
    host: Host,
    max_tokens: u64,
    extra: Map<String, Value>,
    written: Written,
}

impl Wire for Messages {
    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
        encode::body(self, request, stream)
    }

    fn token_count(&self, endpoint: &Endpoint, request: &ModelRequest) -> Result<Option<TokenCount>, ModelError> {
        let body = encode::body(self, request, false)?;
        let path = endpoint.url.path();
        Ok(Some(match self.host {
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

    fn decode(&self, body: &[u8]) -> Result<Decoded, ModelError> {
        decode::whole(&self.origin, body)
    }

    fn answer_decoder(&self) -> Box<dyn AnswerDecoder> {
        let decoder = decode::MessageDecoder::new(self.origin.clone());
        match self.host {
            Host::Bedrock => Box::new(chunks::ChunkDecoder(decoder)),
            _ => Box::new(decoder),
        }
    }
}
