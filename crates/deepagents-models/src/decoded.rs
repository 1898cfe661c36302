//! A decoded response with the provider's own stop reason and usage.

use deepagents_core::message::{AssistantMessage, Block, Origin, Usage};
use deepagents_core::model::{ModelOutput, StopReason};
use serde_json::Value;

/// A decoded response, with the provider's own stop reason and token usage.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Decoded {
    /// The response in the harness's types.
    pub output: ModelOutput,
    /// The provider's stop reason.
    pub stop: Option<String>,
    /// Token usage as the provider reported it, an object; null if it reported none.
    pub usage: Value,
}

impl Decoded {
    /// `word` and `reported` are the provider's own values; `stop` and `usage` are their translations.
    pub(crate) fn new(
        id: String,
        origin: Origin,
        content: Vec<Block>,
        usage: Usage,
        stop: StopReason,
        word: Option<String>,
        reported: Value,
    ) -> Self {
        let message = AssistantMessage { id, content, origin: Some(origin), name: None, usage: Some(usage) };
        Self { output: ModelOutput { message, usage, stop }, stop: word, usage: reported }
    }
}
