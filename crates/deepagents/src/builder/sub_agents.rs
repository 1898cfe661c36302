//! Builds sub-agents from their specs.

use std::sync::Arc;

use deepagents_core::agent::BuildError;

use super::asked::check_file;
use super::{DeepAgentBuilder, FILESYSTEM, UNBOUND};
use crate::middleware::ToolFilter;
use crate::middleware::subagents::{AgentFiles, GENERAL_PURPOSE, GENERAL_PURPOSE_DESCRIPTION, SubAgents};
use crate::profile::{GeneralPurpose, HarnessProfile};
use crate::subagents::{AgentSubAgent, DynSubAgent, Headers, Mode, Registry, SubAgentSpec};

/// Name of the middleware that lists skills.
pub(super) const SKILLS: &str = "Skills";

/// Returns the standard `general-purpose`, as configured by the profile.
fn general_purpose(said: &GeneralPurpose) -> SubAgentSpec {
    let description = said.description.as_deref().unwrap_or(GENERAL_PURPOSE_DESCRIPTION);
    let prompt = said.system_prompt.as_deref().unwrap_or(include_str!("../prompts/general_purpose.md"));
    let mut spec = SubAgentSpec::new(GENERAL_PURPOSE, description).system_prompt(prompt.trim_end());
    spec.code.inherits_skills = true;
    spec.code.without_base = said.system_prompt.is_some();
    spec
}

impl DeepAgentBuilder {
    /// Builds the sub-agents, with `general-purpose` first unless it is switched off or replaced by the user; and, if
    /// there are or may be any, the middleware that delegates to them.
    pub(super) fn delegation(
        &self,
        profile: &HarnessProfile,
    ) -> Result<(Arc<Registry>, Option<SubAgents>), BuildError> {
        let said = profile.config.general_purpose_subagent.clone().unwrap_or_default();
        let wanted = !self.no_general_purpose && said.enabled != Some(false);
        let standard = wanted && !self.sub_agents.iter().any(|spec| spec.name == GENERAL_PURPOSE);
        let mut parent = self.clone();
        parent.nesting.gives_way |= standard;
        parent.options.channels = self.channels_below();
        if standard {
            parent.sub_agents.insert(0, general_purpose(&said));
        }
        let bound = self.nesting.is_bound;
        let given = parent.sub_agents.iter().map(|spec| parent.make(spec, bound)).collect::<Result<Vec<_>, _>>()?;
        // Skills may define sub-agents, now or when they are written later.
        let has_skills = self.skills.is_some() || self.has_own(SKILLS);
        let (registry, files) = if !self.agent_sources.is_empty() || (has_skills && !self.nesting.is_leaf) {
            let files = AgentFiles::new(self.definitions(), self.agent_sources.clone())?;
            let replaceable = parent.nesting.gives_way.then_some(GENERAL_PURPOSE);
            let make = move |spec: &SubAgentSpec| parent.make(spec, true).map_err(|error| error.to_string());
            (Registry::open(given, replaceable, make)?, Some(files))
        } else {
            (Registry::fixed(given)?, None)
        };
        let registry = Arc::new(registry);
        if files.is_none() && registry.given().is_empty() {
            return Ok((registry, None));
        }
        let sub_agents = SubAgents::on(registry.clone(), self.limits.clone(), files)?;
        let description = self.task_description.as_ref().or_else(|| profile.task_description());
        let sub_agents = description.into_iter().fold(sub_agents, |made, text| made.task_description(text));
        let sub_agents = self.delegation_prompt.iter().cloned().fold(sub_agents, SubAgents::system_prompt);
        Ok((registry, Some(sub_agents)))
    }

    /// Builds the sub-agent of a spec. A bound one is allowed no more than this agent.
    fn make(&self, spec: &SubAgentSpec, bound: bool) -> Result<Arc<dyn DynSubAgent>, BuildError> {
        self.try_make(spec, bound).map_err(|why| BuildError::Option(format!("sub-agent `{}`: {why}", spec.name)))
    }

    fn try_make(&self, spec: &SubAgentSpec, bound: bool) -> Result<Arc<dyn DynSubAgent>, String> {
        if (spec.runnable.is_some() || spec.code.agent.is_some())
            && let Some(key) = spec.conflict_with_runnable()
        {
            return Err(format!("`{key}` cannot be combined with `runnable`, which is already built"));
        }
        if let Some(agent) = &spec.code.agent {
            return Ok(agent.0.clone());
        }
        if let Some(url) = &spec.url {
            return self.remote_agent(spec, url, bound);
        }
        if spec.graph_id.is_some() || spec.headers != Headers::default() {
            return Err(
                "`graph_id` and `headers` are for an agent on another server; give its address as `url`".to_owned()
            );
        }
        if let Some(name) = &spec.runnable {
            let agent = self.runnables.get(name);
            let agent = agent.ok_or_else(|| format!("no agent `{name}` was given with `.runnable(...)`"))?;
            return Ok(Arc::new(AgentSubAgent::new(&spec.name, &spec.description, agent).mode(spec.mode)));
        }
        let mut builder = self.below(spec, bound)?;
        if spec.permissions.as_ref().is_some_and(|rules| !rules.is_empty()) && builder.has_own(FILESYSTEM) {
            return Err(UNBOUND.to_owned());
        }
        if let Some(names) = &builder.nesting.only_tools {
            // It must be able to call its own sub-agents.
            let delegates = (!spec.sub_agents.is_empty()).then(|| "task".to_owned());
            let filter = ToolFilter::only(names.iter().cloned().chain(delegates));
            builder.own.push(Arc::new(filter));
        }
        let agent = builder.build().map_err(|error| error.to_string())?;
        if bound {
            check_file(spec, &agent)?;
        }
        // The tools of MCP servers are known only when they run.
        let has = |name: &String| name.starts_with("mcp__") || agent.tools().iter().any(|tool| tool.name == *name);
        if let Some(missing) = spec.tool_names.iter().flatten().find(|name| !has(name)) {
            let own = self.tools.iter().map(|tool| tool.spec().name);
            let mut known: Vec<String> = agent.tools().iter().map(|tool| tool.name.clone()).chain(own).collect();
            known.sort_unstable();
            known.dedup();
            return Err(format!("there is no tool `{missing}` for it; there are {}", known.join(", ")));
        }
        let instructions = spec.system_prompt.clone().filter(|_| spec.mode == Mode::Fork);
        let made = AgentSubAgent::new(&spec.name, &spec.description, &agent).mode(spec.mode);
        Ok(Arc::new(made.instructions(instructions)))
    }

    #[cfg(feature = "remote")]
    fn remote_agent(&self, spec: &SubAgentSpec, url: &str, bound: bool) -> Result<Arc<dyn DynSubAgent>, String> {
        Ok(Arc::new(self.remote.make(spec, url, bound)?))
    }

    #[cfg(not(feature = "remote"))]
    fn remote_agent(&self, _spec: &SubAgentSpec, url: &str, _bound: bool) -> Result<Arc<dyn DynSubAgent>, String> {
        Err(format!("it is on the server {url}, but the feature `remote` is not enabled"))
    }
}
