//! A sub-agent that has some tools alone.

use std::collections::BTreeSet;

use deepagents_core::error::Result;
use deepagents_core::middleware::{Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::Context;

/// Keeps all but some tools out of every request, and answers a call of another with an error.
#[derive(Clone, Debug)]
pub(crate) struct ToolSelection {
    pub(crate) names: BTreeSet<String>,
}

impl Middleware for ToolSelection {
    fn name(&self) -> &str {
        "ToolSelection"
    }

    async fn modify_request(&self, mut request: ModelRequest, _cx: &Context) -> Result<ModelRequest> {
        request.tools.retain(|tool| self.names.contains(&tool.name));
        Ok(request)
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        if !self.names.contains(&request.call.name) {
            return Ok(ToolResponse::error(format!("Error: {} is not a tool you have.", request.call.name)));
        }
        next.run(request).await
    }
}
