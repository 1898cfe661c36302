//! Google's Interactions API, used statelessly: the provider stores nothing, and its steps are sent back one by one.

mod decode;
mod encode;
mod steps;

use deepagents_core::model::{ModelError, ModelRequest};

use crate::body::{self, Head, RequestBody};
use crate::client::{HttpModel, Target};
use crate::config::{ConfigError, ModelConfig};
use crate::gemini::{BASE_URL, KEY_HEADER};
use crate::http::{AnswerDecoder, Auth, Endpoint, Wire};

/// Name of this wire in [`Origin::api`](deepagents_core::message::Origin::api).
pub const API: &str = "gemini-interactions";
/// Name of the provider in the registry and in [`Origin::provider`](deepagents_core::message::Origin::provider).
pub const PROVIDER: &str = "google-interactions";

/// A model of Google's Interactions API, plain or streamed.
///
/// Requests set `store: false`, so each step from the service (thoughts with their signature, text, calls, its own
/// tools) is sent back verbatim and in order. For everything else, see [`Gemini`](crate::Gemini).
///
/// ```
/// use deepagents_models::{Interactions, ModelConfig};
/// let config = ModelConfig { api_key: Some("a key".into()), ..ModelConfig::default() };
/// let model = Interactions::new("gemini-3-flash-preview", config)?;
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
pub type Interactions = HttpModel<Steps>;

impl Interactions {
    /// Creates a model with this name. Does not connect until the first call.
    ///
    /// # Errors
    /// Returns an error if an address or a header cannot be used.
    pub fn new(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let model = model.into();
        let base = config.base_url.as_deref().unwrap_or(BASE_URL);
        let path = if config.streaming.unwrap_or(true) { "/interactions?alt=sse" } else { "/interactions" };
        let endpoint = Endpoint::new(base, path, Auth::Header(KEY_HEADER), &[], &config)?;
        let profile = config.profile(&model);
        Ok(Self::at(endpoint, [API, PROVIDER, &model], (profile, config.extra), Steps))
    }
}

/// Wire of the Interactions API.
#[derive(Debug)]
pub struct Steps;

impl Wire for Target<Steps> {
    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
        let head = Head::new(self, request, stream);
        head.body(head.tools_and_system()?, ("input", &[]), usize::MAX, |known| {
            Ok(body::exact(encode::steps(request, known.messages(), &self.origin)?, &["arguments"]))
        })
    }

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::<decode::InteractionDecoder>::default()
    }
}
