//! The tool `task`.

use std::sync::Arc;

use deepagents_core::tool::{Effect, Tool, ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::{Delegation, DelegationLimits, DynSubAgent};

pub(super) struct TaskTool {
    pub(super) agents: Vec<Arc<dyn DynSubAgent>>,
    pub(super) limits: DelegationLimits,
    /// A place for each sub-agent that may run at once.
    pub(super) gate: Semaphore,
    /// For the model, with the list of sub-agents.
    pub(super) description: String,
}

/// How deep the agents above allow delegation to go.
pub(super) struct Depth(pub(super) usize);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskArgs {
    /// The whole task, what must be known for it, and what to report.
    description: String,
    /// Name of a sub-agent.
    subagent_type: String,
}

impl TaskTool {
    /// A description with the list of sub-agents in the place of `{available_agents}`.
    pub(super) fn describe(template: &str, agents: &[Arc<dyn DynSubAgent>]) -> String {
        let lines: Vec<String> = agents.iter().map(|a| format!("- {}: {}", a.name(), a.description())).collect();
        template.trim_end().replace("{available_agents}", &lines.join("\n"))
    }
}

impl Tool for TaskTool {
    type Args = TaskArgs;

    fn name(&self) -> &str {
        "task"
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn effect(&self, _args: &TaskArgs) -> Effect {
        Effect::External
    }

    async fn call(&self, args: TaskArgs, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let Some(agent) = self.agents.iter().find(|agent| agent.name() == args.subagent_type) else {
            let known: Vec<&str> = self.agents.iter().map(|agent| agent.name()).collect();
            return Err(ToolError::model(format!(
                "Error: there is no sub-agent {}; there are {}.",
                args.subagent_type,
                known.join(", ")
            )));
        };
        // The limit of an agent above holds below it too.
        let depth = cx.extension::<Depth>().map_or(self.limits.depth, |above| above.0.min(self.limits.depth));
        if cx.path().len() >= depth {
            return Err(ToolError::denied(format!(
                "Error: delegation may go {depth} deep and no deeper; do this work yourself."
            )));
        }
        let _place = self.gate.acquire().await?;
        let report = agent.run(Delegation::new(args.description, depth), cx).await?;
        Ok(report.output)
    }
}
