//! A decoded answer with the provider's own words for its end and its cost.

use deepagents_core::message::{AssistantMessage, Block, Origin, Usage};
use deepagents_core::model::{ModelOutput, StopReason};
use serde_json::Value;

/// A decoded answer, and what the provider itself called its end and its cost.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Decoded {
    /// The answer in the harness's terms.
    pub output: ModelOutput,
    /// Why the model stopped, in the provider's word.
    pub stop: Option<String>,
    /// The token counts as the provider reported them, an object; null when it reported none.
    pub usage: Value,
}

impl Decoded {
    /// `word` and `reported` are the provider's own, `stop` and `usage` what they mean.
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
