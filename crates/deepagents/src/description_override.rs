//! Tools with a replaced description.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::state::ChannelSpec;
use deepagents_core::tool::{DynTool, Effect, ToolContext, ToolError, ToolOutput, ToolSpec};
use futures_util::future::BoxFuture;
use serde_json::Value;

/// A tool with a replaced description.
pub(crate) struct DescriptionOverride {
    tool: Arc<dyn DynTool>,
    description: String,
}

impl DynTool for DescriptionOverride {
    fn spec(&self) -> ToolSpec {
        ToolSpec { description: self.description.clone(), ..self.tool.spec() }
    }
    fn effect(&self, args: &Value) -> Effect {
        self.tool.effect(args)
    }
    fn coerced(&self, args: &Value) -> Option<Value> {
        self.tool.coerced(args)
    }
    fn misfit(&self, args: &Value) -> Option<String> {
        self.tool.misfit(args)
    }
    fn idempotent(&self, args: &Value) -> bool {
        self.tool.idempotent(args)
    }
    fn return_direct(&self) -> bool {
        self.tool.return_direct()
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        self.tool.channels()
    }
    fn bounds_results(&self) -> bool {
        self.tool.bounds_results()
    }
    fn call(self: Arc<Self>, args: Value, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        self.tool.clone().call(args, cx)
    }
}

impl DescriptionOverride {
    /// Wraps the tool if `descriptions` has an entry for its name.
    pub(crate) fn by(descriptions: &BTreeMap<String, String>, tool: Arc<dyn DynTool>) -> Arc<dyn DynTool> {
        match descriptions.get(&tool.spec().name) {
            Some(description) => Arc::new(Self { tool, description: description.clone() }),
            None => tool,
        }
    }
}
