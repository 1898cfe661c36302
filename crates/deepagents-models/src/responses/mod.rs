//! OpenAI's Responses API, used statelessly: the provider stores nothing, and its output is sent back item by item.

mod decode;
mod encode;
mod input;
mod items;
mod part;

use deepagents_core::model::{ModelError, ModelRequest};

use crate::body::{Head, RequestBody};
use crate::client::{HttpModel, Target};
use crate::config::{ConfigError, ModelConfig};
use crate::http::{AnswerDecoder, Auth, Endpoint, TokenCount, Wire, fields_of};
use crate::registry::Provider;

/// Name of this wire in [`Origin::api`](deepagents_core::message::Origin::api).
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
        let azure = service == "azure";
        let example = if azure { "https://RESOURCE.openai.azure.com/openai/v1" } else { "https://models.example/v1" };
        let base = config.base_url_or(usual, service, example)?;
        let auth = if azure { Auth::Header("api-key") } else { Auth::Bearer };
        let endpoint = Endpoint::new(base, "/responses", auth, &[], &config)?;
        let mut profile = config.profile(&model);
        if ["openai", "azure"].contains(&service) {
            profile.documents = DOCUMENTS.iter().map(|(mime, _)| (*mime).to_owned()).collect();
        }
        Ok(Self::at(endpoint, [API, service, &model], (profile, config.extra), Responses))
    }
}

/// MIME types of the documents other than PDF that OpenAI takes, each with the ending of their names.
const DOCUMENTS: [(&str, &str); 17] = [
    ("text/plain", "txt"),
    ("text/markdown", "md"),
    ("text/html", "html"),
    ("text/csv", "csv"),
    ("text/tab-separated-values", "tsv"),
    ("text/xml", "xml"),
    ("text/css", "css"),
    ("text/javascript", "js"),
    ("application/json", "json"),
    ("application/rtf", "rtf"),
    ("application/msword", "doc"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.oasis.opendocument.text", "odt"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("application/vnd.ms-powerpoint", "ppt"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
];

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

/// Wire of the Responses API.
#[derive(Debug)]
pub struct Responses;

impl Wire for Target<Responses> {
    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
        if !request.settings.stop.is_empty() {
            return Err(ModelError::invalid(
                "the Responses API does not support stop sequences (settings.stop); drop them or use Chat Completions",
            ));
        }
        let head = Head::new(self, request, stream);
        head.body(head.tools_and_system()?, ("input", &[]), usize::MAX, |known| {
            Ok(input::input(request, known.messages(), &self.origin)?.into_iter())
        })
    }

    fn token_count(&self, endpoint: &Endpoint, request: &ModelRequest) -> Result<Option<TokenCount>, ModelError> {
        let body = fields_of(&self.encode(request, false)?, &COUNTED)?;
        Ok(Some(TokenCount { path: format!("{}/input_tokens", endpoint.url.path()), body, field: "input_tokens" }))
    }

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::<decode::ResponseDecoder>::default()
    }
}
