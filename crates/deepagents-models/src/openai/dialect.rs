//! How the many services that speak Chat Completions differ, as data.

use super::services;

/// How a service speaks Chat Completions.
///
/// A dialect of a service that is not listed starts from [`Dialect::custom`]:
///
/// ```
/// use deepagents_models::{Dialect, ModelConfig, OpenAiChat};
/// let mut dialect = Dialect::custom();
/// dialect.name = "in-house";
/// let config = ModelConfig { base_url: Some("http://models.example/v1".into()), ..ModelConfig::default() };
/// let model = OpenAiChat::new(dialect, "large", config)?;
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dialect {
    /// The part of a model's name before the colon.
    pub name: &'static str,
    /// The service's name in [`Origin::provider`](deepagents_core::message::Origin::provider), where it is another one.
    pub service: Option<&'static str>,
    /// Its address, where it has a fixed one; the path of the call is `/chat/completions` below it.
    pub base_url: Option<&'static str>,
    /// The environment variable that usually holds the key. The library never reads it.
    pub key_variable: Option<&'static str>,
    /// Whether calls without a key are refused.
    pub key_required: bool,
    /// The header that carries the key alone; `None` sends `authorization: Bearer`.
    pub key_header: Option<&'static str>,
    /// The field for the answer's token limit.
    pub max_tokens_field: &'static str,
    /// The role of the system prompt.
    pub system_role: &'static str,
    /// What the model thought: where it stands in answers and whether it is sent back.
    pub reasoning: ReasoningForm,
    /// What stands in for the reasoning before calls that another service's model made, where the service refuses them
    /// without.
    pub missing_reasoning: Option<&'static str>,
    /// Whether token counts of streams must be asked for (`stream_options.include_usage`).
    pub asks_usage: bool,
    /// How answers are held to a schema.
    pub output: OutputForm,
    /// The word for "some tool must be called".
    pub any_tool: &'static str,
    /// Whether `parallel_tool_calls` is known.
    pub parallel_field: bool,
    /// Which ids of calls are taken.
    pub call_ids: CallIds,
    /// Whether arguments that are not JSON may be sent back as they came; elsewhere `{}` takes their place.
    pub malformed_arguments: bool,
    /// Whether message fields that we do not know (annotations, audio) may be sent back.
    pub unknown_fields: bool,
    /// Whether `cache_control` on content parts is passed on.
    pub cache_marks: bool,
}

/// How what a model thought travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningForm {
    /// Nothing is shown; whatever comes is kept and not sent back.
    Hidden,
    /// In a field of the message, sent back in the same field.
    Field(&'static str),
    /// As items of a content array, sent back in place.
    Content,
}

/// How answers are held to a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputForm {
    /// `response_format: {type: json_schema}`.
    JsonSchema,
    /// `response_format: {type: json_object}`, the schema being told in the system prompt.
    JsonObject,
    /// Not at all; such a request is refused.
    None,
}

/// Which ids of tool calls a service takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallIds {
    /// Any text.
    Any,
    /// Texts of so many bytes; longer ones are replaced by a hash.
    AtMost(usize),
    /// Nine letters or digits; others are replaced by a hash of the same form.
    NineAlphanumerics,
}

impl Dialect {
    pub(super) const BASE: Self = Self {
        name: "custom",
        service: None,
        base_url: None,
        key_variable: None,
        key_required: false,
        key_header: None,
        max_tokens_field: "max_tokens",
        system_role: "system",
        reasoning: ReasoningForm::Field("reasoning_content"),
        missing_reasoning: None,
        asks_usage: true,
        output: OutputForm::JsonSchema,
        any_tool: "required",
        parallel_field: true,
        call_ids: CallIds::Any,
        malformed_arguments: false,
        unknown_fields: false,
        cache_marks: false,
    };

    pub(super) const OPENAI: Self = Self {
        max_tokens_field: "max_completion_tokens",
        reasoning: ReasoningForm::Hidden,
        malformed_arguments: true,
        unknown_fields: true,
        service: Some("openai"),
        call_ids: CallIds::AtMost(40),
        ..Self::service("openai-chat", "https://api.openai.com/v1", "OPENAI_API_KEY")
    };

    /// A service that refuses calls without a key.
    pub(super) const fn service(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Self {
        Self { key_required: true, ..Self::local(name, base_url, key_variable) }
    }

    /// A server that people run themselves.
    pub(super) const fn local(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Self {
        Self { name, base_url: Some(base_url), key_variable: Some(key_variable), ..Self::BASE }
    }

    /// The dialects of known services, `custom` last.
    pub fn all() -> &'static [Self] {
        &services::TABLE
    }

    /// The dialect of a service.
    pub fn named(name: &str) -> Option<Self> {
        services::TABLE.iter().find(|dialect| dialect.name == name).cloned()
    }

    /// What most servers understand; the address must be given.
    pub const fn custom() -> Self {
        Self::BASE
    }
}
