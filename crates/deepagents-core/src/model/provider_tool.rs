//! Tools that a provider runs itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::Origin;

/// A tool that a provider runs itself, such as its web search, in the provider's own format. It is sent after the
/// agent's tools. Its results are part of the answer and are stored there verbatim.
///
/// ```
/// use deepagents_core::model::ProviderTool;
/// use serde_json::json;
/// let search = ProviderTool::new("anthropic", json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 3}));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderTool {
    /// The recipient: a provider, such as `anthropic`, or all that use a wire format, such as `anthropic-messages`.
    pub provider: String,
    /// The entry for the request's list of tools.
    pub spec: Value,
}

impl ProviderTool {
    /// Creates a tool of a provider.
    pub fn new(provider: impl Into<String>, spec: Value) -> Self {
        Self { provider: provider.into(), spec }
    }

    /// Returns whether the tool is sent to this origin.
    pub fn is_for(&self, origin: &Origin) -> bool {
        self.provider == origin.provider || self.provider == origin.api
    }
}
