//! OpenAI's Responses API, used statelessly: the provider stores nothing, and its output is sent back item by item.

mod decode;
mod encode;
mod input;
mod items;
mod part;

use std::sync::Arc;

use deepagents_core::message::Origin;
use deepagents_core::model::{ModelError, ModelRequest};
use serde_json::{Map, Value};

use crate::body::{RequestBody, Written};
use crate::client::HttpModel;
use crate::config::{ConfigError, ModelConfig};
use crate::decoded::Decoded;
use crate::http::{AnswerDecoder, Auth, Endpoint, TokenCount, Wire, fields_of};
use crate::registry::Provider;

/// Name of this wire in [`Origin::api`].
pub const API: &str = "openai-responses";

/// Services known to implement this API.
pub(crate) static SERVICES: [Provider; 6] = [
    Provider::keyed("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    Provider { base_url: None, ..Provider::keyed("azure", "", "AZURE_OPENAI_API_KEY") },
    Provider::keyed("openrouter-responses", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    Provider::keyed("xai-responses", "https://api.x.ai/v1", "XAI_API_KEY"),
    Provider::local("llamacpp-responses", "http://localhost:8080/v1", "LLAMACPP_API_KEY"),
    Provider::local("vllm-responses", "http://localhost:8000/v1", "VLLM_API_KEY"),
];

/// A model of the Responses API, plain or streamed.
///
/// Requests set `store: false` and ask for encrypted reasoning, so that the service holds no state: each of its items
/// (reasoning, messages with their phase, calls, server tools) is sent back verbatim and in order.
///
/// ```
/// use deepagents_models::{ModelConfig, OpenAiResponses};
/// let config = ModelConfig { api_key: Some("a key".into()), ..ModelConfig::default() };
/// let model = OpenAiResponses::new("openai", "gpt-5.2", config)?;
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
pub type OpenAiResponses = HttpModel<Responses>;

impl OpenAiResponses {
    /// Creates a model of a service. Does not connect until the first call. An unknown service requires an address.
    ///
    /// # Errors
    /// Returns an error if there is no address and the service has no fixed one, or if an address or a header cannot be
    /// used.
    pub fn new(service: &str, model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let model = model.into();
        let usual = SERVICES.iter().find(|known| known.name == service).and_then(|known| known.base_url);
        let base = config.base_url.as_deref().or(usual).ok_or_else(|| ConfigError::MissingBaseUrl {
            provider: service.to_owned(),
            example: if service == "azure" {
                "https://RESOURCE.openai.azure.com/openai/v1".to_owned()
            } else {
                "https://models.example/v1".to_owned()
            },
        })?;
        let auth = if service == "azure" { Auth::Header("api-key") } else { Auth::Bearer };
        let endpoint = Endpoint::new(base, "/responses", auth, &[], &config)?;
        let profile = config.profile(&model);
        Ok(Self {
            name: format!("{service}:{model}"),
            endpoint: Arc::new(endpoint),
            wire: Arc::new(Responses {
                origin: Origin { api: API.to_owned(), provider: service.to_owned(), model },
                extra: config.extra,
                written: Written::default(),
            }),
            profile,
        })
    }
}

/// Request fields that count towards tokens.
const COUNTED: [&str; 9] = [
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "reasoning",
    "truncation",
];

/// Wire of the Responses API: what the encoder and decoder need to know of the model.
#[derive(Debug)]
pub struct Responses {
    origin: Origin,
    extra: Map<String, Value>,
    written: Written,
}

impl Wire for Responses {
    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
        encode::body(self, request, stream)
    }

    fn token_count(&self, endpoint: &Endpoint, request: &ModelRequest) -> Result<Option<TokenCount>, ModelError> {
        let body = fields_of(&encode::body(self, request, false)?, &COUNTED)?;
        Ok(Some(TokenCount { path: format!("{}/input_tokens", endpoint.url.path()), body, field: "input_tokens" }))
    }

    fn decode(&self, body: &[u8]) -> Result<Decoded, ModelError> {
        decode::whole(&self.origin, body)
    }

    fn answer_decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::new(decode::ResponseDecoder::new(self.origin.clone()))
    }
}
