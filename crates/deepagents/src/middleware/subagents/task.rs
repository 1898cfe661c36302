//! The tool `task`.

use std::sync::Arc;

use deepagents_core::tool::{Effect, Tool, ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::{Delegation, DelegationLimits, DynSubAgent};
use crate::roster::{ListingTool, Named, Roster};

/// The tool's name.
pub(super) const TASK: &str = "task";

pub(super) struct TaskTool {
    pub(super) roster: Roster<Arc<dyn DynSubAgent>>,
    pub(super) limits: DelegationLimits,
    /// A place for each sub-agent that may run at once.
    pub(super) gate: Semaphore,
    /// How it is described to the model.
    pub(super) listing: ListingTool,
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

    async fn call(&self, args: TaskArgs, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let Some(agent) = self.roster.find(cx.state(), &args.subagent_type) else {
            let all = self.roster.all(cx.state());
            let known: Vec<&str> = all.iter().map(Named::name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(ToolError::model(format!(
                "Error: there is no sub-agent {}; there are {known}.",
                args.subagent_type
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
        let report = DynSubAgent::run(&*agent, Delegation::new(args.description, depth), cx).await?;
        Ok(report.output)
    }
}
