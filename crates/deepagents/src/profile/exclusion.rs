//! Tools that a profile takes away.

use std::collections::BTreeSet;

use deepagents_core::error::Result;
use deepagents_core::middleware::{Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::Context;

/// Takes tools out of every request, and answers a call of one with an error.
#[derive(Clone, Debug)]
pub struct ToolExclusion {
    names: BTreeSet<String>,
}

impl ToolExclusion {
    /// Excludes these tools.
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect() }
    }
}

impl Middleware for ToolExclusion {
    fn name(&self) -> &str {
        "ToolExclusion"
    }

    async fn modify_request(&self, mut request: ModelRequest, _cx: &Context) -> Result<ModelRequest> {
        request.tools.retain(|tool| !self.names.contains(&tool.name));
        Ok(request)
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        if self.names.contains(&request.call.name) {
            return Ok(ToolResponse::error(format!("Error: {} is not available.", request.call.name)));
        }
        next.run(request).await
    }
}
