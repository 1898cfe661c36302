//! Delegation: the tool `task` delegates work to sub-agents.

mod concurrency;
mod files;
mod task;

use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::error::Result;
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::middleware::{HookOutput, Middleware};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::Context;
use deepagents_core::state::ChannelSpec;
use deepagents_core::tool::DynTool;
use serde::{Deserialize, Serialize};

use crate::channels::AgentsMetadata;
use crate::subagents::{DynSubAgent, ListingTool, Registry};
use concurrency::RunLimits;
use task::{TASK, TaskTool};

pub use files::AgentSource;

pub(crate) use concurrency::RunConcurrency;
pub(crate) use files::{AgentFiles, define, definition_file};

/// The name of the sub-agent that exists by default.
pub const GENERAL_PURPOSE: &str = "general-purpose";
/// Its description for the model.
pub(crate) const GENERAL_PURPOSE_DESCRIPTION: &str = "Researches, searches and does multi-step work with the same tools as you; for anything that would take many calls.";

/// Gives the agent sub-agents to which it can delegate.
///
/// Sub-agents of one turn run concurrently. If one fails, its result is an error and the others continue. Each has its
/// own conversation and todo list. It receives the files, and its changes are merged back file by file.
///
/// ```
/// use std::sync::Arc;
/// use deepagents::core::agent::Agent;
/// use deepagents::middleware::subagents::{DelegationLimits, SubAgents};
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// use deepagents::subagents::AgentSubAgent;
/// // For agents of your own; a deep agent is given `.sub_agent(...)`.
/// let helper = Agent::builder(ScriptedModel::new([Turn::text("Found.")])).build()?;
/// let helper = Arc::new(AgentSubAgent::new("helper", "Looks things up.", &helper));
/// let delegation = SubAgents::new(vec![helper], DelegationLimits::default())?;
/// let agent = Agent::builder(ScriptedModel::new([Turn::text("Done.")])).middleware(delegation).build()?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
pub struct SubAgents {
    tool: Arc<TaskTool>,
    files: Option<AgentFiles>,
    system_prompt: Option<Arc<str>>,
}

/// The limits of delegation. A sub-agent's own can only be lower than those of the agent above it.
///
/// ```
/// use deepagents::middleware::subagents::DelegationLimits;
/// let flat = DelegationLimits { depth: 1, ..DelegationLimits::default() };
/// assert_eq!(flat.at_once, 256);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DelegationLimits {
    /// The maximum depth of delegation; 1 means that sub-agents of the main agent may not delegate.
    pub depth: usize,
    /// The maximum number of sub-agents that run concurrently in a run, at each depth; further ones wait. A run of a
    /// main agent thus has at most `depth` times as many at work. Runs do not wait for each other.
    pub at_once: usize,
}

impl Default for DelegationLimits {
    fn default() -> Self {
        Self { depth: 4, at_once: 256 }
    }
}

impl SubAgents {
    /// Creates the middleware for these sub-agents and limits.
    ///
    /// # Errors
    /// Returns an error if there are none, or if two have the same name.
    pub fn new(agents: Vec<Arc<dyn DynSubAgent>>, limits: DelegationLimits) -> Result<Self, BuildError> {
        if agents.is_empty() {
            return Err(BuildError::Option("delegation needs at least one sub-agent".to_owned()));
        }
        Self::on(Arc::new(Registry::fixed(agents)?), limits, None)
    }

    /// Creates the middleware for the sub-agents of a registry.
    pub(crate) fn on(
        registry: Arc<Registry>,
        limits: DelegationLimits,
        files: Option<AgentFiles>,
    ) -> Result<Self, BuildError> {
        if limits.at_once == 0 {
            return Err(BuildError::Option("`at_once` must be at least 1".to_owned()));
        }
        let listing = ListingTool::new(TASK, include_str!("../../prompts/task.md"), registry.given());
        Ok(Self {
            tool: Arc::new(TaskTool { registry, limits, runs: RunLimits::default(), listing }),
            files,
            system_prompt: None,
        })
    }

    /// Replaces the description of the tool `task`; `{available_agents}` in it becomes the list of sub-agents.
    #[must_use]
    pub fn task_description(mut self, text: &str) -> Self {
        // The tool is not shared until the middleware is part of an agent.
        if let Some(tool) = Arc::get_mut(&mut self.tool) {
            tool.listing = ListingTool::new(TASK, text, tool.registry.given());
        }
        self
    }

    /// Adds a section to the system prompt on when and how to delegate. There is none by default, because the tool
    /// describes itself.
    #[must_use]
    pub fn system_prompt(mut self, text: impl Into<Arc<str>>) -> Self {
        self.system_prompt = Some(text.into());
        self
    }

    /// Returns the names of the given sub-agents.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tool.registry.given().iter().map(|agent| agent.name())
    }

    /// Loads the sub-agents that files and skills define.
    async fn load(&self, cx: &Context) -> Result<HookOutput> {
        let Some(files) = &self.files else { return Ok(HookOutput::next()) };
        let known = cx.state().get::<AgentsMetadata>().and_then(Option::as_ref);
        let admit = |listed: &_| self.tool.registry.admit(listed).map(drop);
        let Some(found) = files.refreshed(cx, known, admit).await else { return Ok(HookOutput::next()) };
        let agents = found.agents.iter().map(|listed| listed.definition.name.clone()).collect();
        cx.report(MiddlewareEvent::SubAgentsLoaded { agents, warnings: found.warnings.clone() });
        Ok(HookOutput::set::<AgentsMetadata>(Some(found)))
    }
}

impl Middleware for SubAgents {
    fn name(&self) -> &str {
        "SubAgents"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        let Some(files) = &self.files else { return Vec::new() };
        files.channels().into_iter().chain([ChannelSpec::new::<AgentsMetadata>()]).collect()
    }

    fn system_prompt(&self) -> Option<&str> {
        self.system_prompt.as_deref()
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        vec![self.tool.clone()]
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        self.load(cx).await
    }

    async fn before_model(&self, cx: &Context) -> Result<HookOutput> {
        // Finds the skills of a middleware that comes after this one.
        let known = cx.state().get::<AgentsMetadata>().and_then(Option::as_ref);
        let changed = self.files.is_some() && files::skills_changed(cx.state(), known);
        if changed { self.load(cx).await } else { Ok(HookOutput::next()) }
    }

    async fn modify_request(&self, mut request: ModelRequest, cx: &Context) -> Result<ModelRequest> {
        self.tool.listing.list(&mut request, &self.tool.registry, cx.state());
        Ok(request)
    }
}

impl std::fmt::Debug for SubAgents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubAgents").field("names", &self.names().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}
