//! Delegation: the tool `task` hands work to sub-agents.

mod agent;
mod spec;
mod task;

use std::collections::HashSet;
use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::middleware::Middleware;
use deepagents_core::tool::DynTool;
use tokio::sync::Semaphore;

use task::TaskTool;

pub use agent::{AgentSubAgent, ClosureSubAgent, Delegation, DynSubAgent, Report, SubAgent, sub_agent_fn};
pub use spec::{Mode, SubAgentSpec};

/// The sub-agent that is there unless switched off.
pub const GENERAL_PURPOSE: &str = "general-purpose";
/// What it is for, in the words the model reads.
pub(crate) const GENERAL_PURPOSE_DESCRIPTION: &str = "Researches, searches and does multi-step work with the same tools as you; for anything that would take many calls.";

/// Gives the agent sub-agents to delegate to.
///
/// Sub-agents of one turn run side by side. One that fails is an error result; its siblings finish. Each has a
/// conversation and a todo list of its own; files are handed to it and what it changed comes back file by file.
pub struct SubAgents {
    tool: Arc<TaskTool>,
}

/// How far delegation may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegationLimits {
    /// How deep sub-agents may delegate in turn; 1 means that sub-agents of the main agent may not.
    pub depth: usize,
    /// How many sub-agents of one agent run at once; more wait for their turn.
    pub at_once: usize,
}

impl Default for DelegationLimits {
    fn default() -> Self {
        Self { depth: 4, at_once: 256 }
    }
}

impl SubAgents {
    /// Sub-agents under limits.
    ///
    /// # Errors
    /// When there is none, or two have one name.
    pub fn new(agents: Vec<Arc<dyn DynSubAgent>>, limits: DelegationLimits) -> Result<Self, BuildError> {
        if agents.is_empty() {
            return Err(BuildError::Option("delegation needs at least one sub-agent".to_owned()));
        }
        if limits.at_once == 0 {
            return Err(BuildError::Option("`at_once` must be at least 1".to_owned()));
        }
        let mut names = HashSet::new();
        if let Some(twice) = agents.iter().find(|agent| !names.insert(agent.name())) {
            return Err(BuildError::Option(format!(
                "two sub-agents are named `{}`; give each a name of its own",
                twice.name()
            )));
        }
        let gate = Semaphore::new(limits.at_once.min(Semaphore::MAX_PERMITS));
        let description = TaskTool::describe(include_str!("../../prompts/task.md"), &agents);
        Ok(Self { tool: Arc::new(TaskTool { agents, limits, gate, description }) })
    }

    /// Describes the tool `task` in other words; `{available_agents}` in them becomes the list of sub-agents.
    #[must_use]
    pub fn task_description(mut self, text: &str) -> Self {
        // Nobody else has the tool before the middleware is part of an agent.
        if let Some(tool) = Arc::get_mut(&mut self.tool) {
            tool.description = TaskTool::describe(text, &tool.agents);
        }
        self
    }

    /// Names of the sub-agents.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tool.agents.iter().map(|agent| agent.name())
    }
}

impl Middleware for SubAgents {
    fn name(&self) -> &str {
        "SubAgents"
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        vec![self.tool.clone()]
    }
}

impl std::fmt::Debug for SubAgents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubAgents").field("names", &self.names().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}
