//! The tool `task`.

use std::sync::Arc;

use deepagents_core::tool::{Effect, Tool, ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use super::DelegationLimits;
use super::concurrency::RunLimits;
use crate::subagents::{Concurrency, Depth, ListingTool, Registry, SubAgentTask};

/// The name of the tool.
pub(super) const TASK: &str = "task";

pub(super) struct TaskTool {
    pub(super) registry: Arc<Registry>,
    pub(super) limits: DelegationLimits,
    /// How many sub-agents of each run work at once.
    pub(super) runs: RunLimits,
    /// Its description for the model.
    pub(super) listing: ListingTool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskArgs {
    /// The whole task, what must be known for it, and what to report.
    description: String,
    /// Name of a sub-agent.
    subagent_type: String,
}

impl Tool for TaskTool {
    type Args = TaskArgs;

    fn name(&self) -> &str {
        TASK
    }

    fn description(&self) -> &str {
        self.listing.description()
    }

    fn effect(&self, _args: &TaskArgs) -> Effect {
        Effect::External
    }

    fn idempotent(&self, args: &TaskArgs) -> bool {
        self.registry.is_idempotent(&args.subagent_type)
    }

    async fn call(&self, args: TaskArgs, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let agent = self.registry.find(cx.state(), &args.subagent_type)?;
        // The limit of an agent above applies to its descendants too.
        let depth = cx.extension::<Depth>().map_or(self.limits.depth, |above| above.0.min(self.limits.depth));
        if cx.path().len() >= depth {
            return Err(ToolError::denied(format!(
                "Error: delegation may go {depth} deep and no deeper; do this work yourself."
            )));
        }
        let own = self.runs.of(cx.run_id(), self.limits.at_once);
        let of_run = cx.extension::<Concurrency>().map_or_else(|| own.clone(), |above| above.0.clone());
        let level = cx.path().len();
        let _own_place = if own.is_below(&of_run) { Some(own.enter(level).await?) } else { None };
        let _place = of_run.enter(level).await?;
        let task = SubAgentTask::new(args.description, depth).in_run(of_run);
        Ok(agent.run(task, cx).await?.output)
    }
}
