//! A decoded answer with the provider's own words for its end and its cost.

use deepagents_core::model::ModelOutput;
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
