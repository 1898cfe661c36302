//! Restricts the tools of an agent.

use std::collections::BTreeSet;

use deepagents_core::error::Result;
use deepagents_core::middleware::{Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::Context;

/// Removes tools from every request, and answers calls of them with an error. The tool for structured answers is kept.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::middleware::ToolFilter;
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// let model = ScriptedModel::new([Turn::text("Hello.")]);
/// let reader = DeepAgent::builder().model(model).middleware(ToolFilter::exclude(["write_file", "edit_file"])).build()?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ToolFilter {
    names: BTreeSet<String>,
    /// Whether the named tools are kept rather than removed.
    keeps: bool,
}

impl ToolFilter {
    /// Removes these tools.
    pub fn exclude<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), keeps: false }
    }

    /// Removes all other tools.
    pub fn only<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { keeps: true, ..Self::exclude(names) }
    }

    fn has(&self, tool: &str) -> bool {
        self.names.contains(tool) == self.keeps
    }
}

impl Middleware for ToolFilter {
    fn name(&self) -> &str {
        if self.keeps { "ToolSelection" } else { "ToolExclusion" }
    }

    fn hides_tool(&self, name: &str) -> bool {
        !self.has(name)
    }

    async fn modify_request(&self, mut request: ModelRequest, cx: &Context) -> Result<ModelRequest> {
        request.tools.retain(|tool| self.has(&tool.name) || cx.answer_tool() == Some(tool.name.as_str()));
        Ok(request)
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        let name = &request.call.name;
        if self.has(name) {
            return next.run(request).await;
        }
        let what = if self.keeps { "not a tool you have" } else { "not available" };
        Ok(ToolResponse::error(format!("Error: {name} is {what}.")).refused())
    }
}
