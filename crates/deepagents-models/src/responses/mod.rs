//! OpenAI's Responses API, stateless: nothing is stored by the provider, and what it said is sent back item by item.

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

/// The name of this wire in [`Origin::api`].
pub const API: &str = "openai-responses";

/// The services that are known to speak this API.
pub(crate) static SERVICES: [Provider; 6] = [
    Provider::keyed("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    Provider { base_url: None, ..Provider::keyed("azure", "", "AZURE_OPENAI_API_KEY") },
    Provider::keyed("openrouter-responses", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    Provider::keyed("xai-responses", "https://api.x.ai/v1", "XAI_API_KEY"),
    Provider::local("llamacpp-responses", "http://localhost:8080/v1", "LLAMACPP_API_KEY"),
    Provider::local("vllm-responses", "http://localhost:8000/v1", "VLLM_API_KEY"),
];

/// A model behind the Responses API, plain or streamed.
///
/// Requests say `store: false` and ask for encrypted reasoning, so that the service holds no state: each item that it
/// gave (reasoning, messages with their phase, calls, server tools) goes back to it verbatim and in order.
///
/// ```
/// use deepagents_models::{ModelConfig, OpenAiResponses};
/// let config = ModelConfig { api_key: Some("a key".into()), ..ModelConfig::default() };
/// let model = OpenAiResponses::new("openai", "gpt-5.2", config)?;
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
pub type OpenAiResponses = HttpModel<Responses>;

impl OpenAiResponses {
    /// A model of a service. Nothing is opened until the first call. A service that is not known needs an address.
    ///
    /// # Errors
    /// No address where the service has no fixed one; an address or a header that cannot be used.
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

/// The fields of a request that are counted.
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

/// The wire of the Responses API: what the encoder and decoder need to know of the model.
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
