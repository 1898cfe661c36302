//! OpenAI's Chat Completions API, and services with dialects of it.

mod assistant;
mod call_id;
mod calls;
mod decode;
mod dialect;
mod encode;
mod items;
mod part;
mod services;

use deepagents_core::model::{ModelError, ModelRequest};

pub use dialect::{CallIds, Dialect, OutputForm, ReasoningForm};

use crate::body::{Head, RequestBody, first_marked};
use crate::client::{HttpModel, Target};
use crate::config::{ConfigError, ModelConfig};
use crate::http::{AnswerDecoder, Endpoint, Wire};

/// Name of this wire in [`Origin::api`](deepagents_core::message::Origin::api).
pub const API: &str = "openai-chat";

/// A model of Chat Completions, plain or streamed.
///
/// The model's output is sent back to the same service unchanged, including reasoning and the text of arguments, as far
/// as its [`Dialect`] accepts it. The API does not support images in tool results, so they follow in a user message.
///
/// ```
/// use deepagents_models::{Dialect, ModelConfig, OpenAiChat};
/// let dialect = Dialect::named("groq").ok_or("not listed")?;
/// let model = OpenAiChat::new(dialect, "openai/gpt-oss-120b", ModelConfig::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type OpenAiChat = HttpModel<Chat>;

impl OpenAiChat {
    /// Creates a model with this name. Does not connect until the first call.
    ///
    /// # Errors
    /// Returns an error if there is no address and the service has no fixed one, or if an address or a header cannot be
    /// used.
    pub fn new(mut dialect: Dialect, model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let model = model.into();
        let base = config.base_url_or(dialect.base_url, dialect.name, "https://models.example/v1")?;
        let endpoint = Endpoint::new(base, "/chat/completions", dialect.auth(), &[], &config)?;
        // A gateway forwards the request to services with other wires, which need valid JSON arguments and may support
        // marks.
        dialect.malformed_arguments &= !model.starts_with("anthropic/") && !model.starts_with("google/");
        dialect.cache_marks &= model.starts_with("anthropic/");
        let mut profile = config.profile(&model);
        profile.cache_marks = dialect.cache_marks;
        if dialect.output != OutputForm::JsonSchema {
            profile.structured_output = Some(false);
        }
        let (name, service) = (format!("{}:{model}", dialect.name), dialect.service.unwrap_or(dialect.name));
        let client = Self::at(endpoint, [API, service, &model], (profile, config.extra), Chat(dialect));
        Ok(client.named(name))
    }
}

/// Wire of Chat Completions in a dialect.
#[derive(Debug)]
pub struct Chat(Dialect);

impl Wire for Target<Chat> {
    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
        let dialect = &self.wire.0;
        if dialect.output == OutputForm::None && request.output_schema.is_some() {
            return Err(ModelError::invalid(format!(
                "{} cannot hold answers to a schema; offer a tool with that schema instead",
                dialect.name
            )));
        }
        let head = Head::new(self, request, stream);
        let lead: Vec<_> = head.system_item(dialect).into_iter().collect();
        let first_marked = if dialect.cache_marks { first_marked(request) } else { usize::MAX };
        head.body(head.tools_field()?, ("messages", &lead), first_marked, |known| {
            Ok(items::items(self, request, known.messages(), first_marked)?.into_iter())
        })
    }

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::new(decode::MessageDecoder::new(self.wire.0.clone()))
    }
}
