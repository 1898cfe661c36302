//! Delegation: the tool `task` hands work to sub-agents.

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
use tokio::sync::Semaphore;

use crate::channels::AgentsMetadata;
use crate::subagents::{DynSubAgent, ListingTool, Registry};
use task::{TASK, TaskTool};

pub use files::AgentSource;

pub(crate) use files::{AgentFiles, define};

/// The sub-agent that is there unless switched off.
pub const GENERAL_PURPOSE: &str = "general-purpose";
/// What it is for, in the words the model reads.
pub(crate) const GENERAL_PURPOSE_DESCRIPTION: &str = "Researches, searches and does multi-step work with the same tools as you; for anything that would take many calls.";

/// Gives the agent sub-agents to delegate to.
///
/// Sub-agents of one turn run side by side. One that fails is an error result; its siblings finish. Each has a
/// conversation and a todo list of its own; files are handed to it and what it changed comes back file by file.
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

/// How far delegation may go.
///
/// ```
/// use deepagents::middleware::subagents::DelegationLimits;
/// let flat = DelegationLimits { depth: 1, ..DelegationLimits::default() };
/// assert_eq!(flat.at_once, 256);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
        Self::on(Arc::new(Registry::fixed(agents)?), limits, None)
    }

    /// Sub-agents that may be defined elsewhere as well.
    pub(crate) fn on(
        registry: Arc<Registry>,
        limits: DelegationLimits,
        files: Option<AgentFiles>,
    ) -> Result<Self, BuildError> {
        if limits.at_once == 0 {
            return Err(BuildError::Option("`at_once` must be at least 1".to_owned()));
        }
        let permits = Semaphore::new(limits.at_once.min(Semaphore::MAX_PERMITS));
        let listing = ListingTool::new(TASK, include_str!("../../prompts/task.md"), registry.given());
        Ok(Self { tool: Arc::new(TaskTool { registry, limits, permits, listing }), files, system_prompt: None })
    }

    /// Describes the tool `task` in other words; `{available_agents}` in them becomes the list of sub-agents.
    #[must_use]
    pub fn task_description(mut self, text: &str) -> Self {
        // Nobody else has the tool before the middleware is part of an agent.
        if let Some(tool) = Arc::get_mut(&mut self.tool) {
            tool.listing = ListingTool::new(TASK, text, tool.registry.given());
        }
        self
    }

    /// A section of the system prompt on when and how to delegate; none unless given, since the tool describes itself.
    #[must_use]
    pub fn system_prompt(mut self, text: impl Into<Arc<str>>) -> Self {
        self.system_prompt = Some(text.into());
        self
    }

    /// Names of the sub-agents it was given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tool.registry.given().iter().map(|agent| agent.name())
    }

    /// Finds what files and skills define.
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
        // Skills of a middleware that comes after this one are found later.
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
