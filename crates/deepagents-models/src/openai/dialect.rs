//! Differences between services that implement Chat Completions, as data.

use super::services;
use crate::http::Auth;

/// A service's variant of Chat Completions.
///
/// Start the dialect of an unlisted service from [`Dialect::custom`]:
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
    /// Name of the service in [`Origin::provider`](deepagents_core::message::Origin::provider), if different.
    pub service: Option<&'static str>,
    /// Base URL, if fixed; calls go to `/chat/completions` below it.
    pub base_url: Option<&'static str>,
    /// Environment variable that usually holds the key. The library never reads it.
    pub key_variable: Option<&'static str>,
    /// Whether the service rejects calls without a key.
    pub key_required: bool,
    /// Header for the bare key; `None` sends `authorization: Bearer`.
    pub key_header: Option<&'static str>,
    /// Field for the output token limit.
    pub max_tokens_field: &'static str,
    /// Role of the system prompt.
    pub system_role: &'static str,
    /// Where reasoning is in responses, and whether it is sent back.
    pub reasoning: ReasoningForm,
    /// Placeholder reasoning before calls of another service's model, if the service rejects calls without reasoning.
    pub missing_reasoning: Option<&'static str>,
    /// Whether usage in streams must be requested (`stream_options.include_usage`).
    pub asks_usage: bool,
    /// How output is constrained to a schema.
    pub output: OutputForm,
    /// Value of the tool choice that requires a call to some tool.
    pub any_tool: &'static str,
    /// Whether the service supports `parallel_tool_calls`.
    pub parallel_field: bool,
    /// Which call IDs the service accepts.
    pub call_ids: CallIds,
    /// Whether arguments that are not valid JSON may be sent back unchanged; otherwise `{}` replaces them.
    pub malformed_arguments: bool,
    /// Whether unknown message fields (annotations, audio) may be sent back.
    pub unknown_fields: bool,
    /// Whether `cache_control` on content parts is supported.
    pub cache_marks: bool,
}

/// Location of reasoning in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningForm {
    /// Not exposed; anything received is kept and not sent back.
    Hidden,
    /// In a field of the message, and sent back in it.
    Field(&'static str),
    /// As items of a content array, and sent back in place.
    Content,
}

/// How output is constrained to a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputForm {
    /// `response_format: {type: json_schema}`.
    JsonSchema,
    /// `response_format: {type: json_object}`, with the schema in the system prompt.
    JsonObject,
    /// Not supported; such requests are rejected.
    None,
}

/// Which tool call IDs a service accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallIds {
    /// Any text.
    Any,
    /// Texts of up to this many bytes; longer ones are replaced by a hash.
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

    /// Creates a service that rejects calls without a key.
    pub(super) const fn service(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Self {
        Self { key_required: true, ..Self::local(name, base_url, key_variable) }
    }

    /// Creates a server that users run themselves.
    pub(super) const fn local(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Self {
        Self { name, base_url: Some(base_url), key_variable: Some(key_variable), ..Self::BASE }
    }

    /// Returns the dialects of known services, `custom` last.
    pub fn all() -> &'static [Self] {
        &services::TABLE
    }

    /// Returns the dialect of a known service.
    pub fn named(name: &str) -> Option<Self> {
        services::TABLE.iter().find(|dialect| dialect.name == name).cloned()
    }

    /// Returns the dialect of a service, whichever of its wires is named: it lists its models at the same place for
    /// all of them.
    pub(crate) fn of_service(provider: &str) -> Option<Self> {
        Self::named(provider).or_else(|| Self::named(&format!("{provider}-chat")))
    }

    /// Returns how the service takes its key.
    pub(crate) fn auth(&self) -> Auth {
        self.key_header.map_or(Auth::Bearer, Auth::Header)
    }

    /// Returns the dialect that most servers understand; the address must be configured.
    pub const fn custom() -> Self {
        Self::BASE
    }
}
