//! Closures as sub-agents.

use std::future::Future;

use deepagents_core::tool::{ToolContext, ToolError};

use super::{SubAgent, SubAgentResult, SubAgentTask};

struct ClosureSubAgent<F> {
    name: String,
    description: String,
    run: F,
}

/// Creates a sub-agent from a closure.
///
/// ```
/// use deepagents::subagents::{SubAgentResult, sub_agent_fn};
/// let echo = sub_agent_fn("echo", "Says it again.", |work, _cx| async move { Ok(SubAgentResult::text(work.description)) });
/// ```
pub fn sub_agent_fn<F, Fut>(name: impl Into<String>, description: impl Into<String>, run: F) -> impl SubAgent
where
    F: Fn(SubAgentTask, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<SubAgentResult, ToolError>> + Send + 'static,
{
    ClosureSubAgent { name: name.into(), description: description.into(), run }
}

impl<F, Fut> SubAgent for ClosureSubAgent<F>
where
    F: Fn(SubAgentTask, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<SubAgentResult, ToolError>> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    async fn run(&self, work: SubAgentTask, cx: ToolContext) -> Result<SubAgentResult, ToolError> {
        (self.run)(work, cx).await
    }
}
