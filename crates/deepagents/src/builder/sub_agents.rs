//! Builds sub-agents from their specs.

use std::sync::Arc;

use deepagents_core::agent::{AgentOptions, BuildError};
use deepagents_core::model::ChatModel;
use deepagents_fs::permissions::Permissions;

use super::asked::check_file;
use super::inherit::limits_for;
use super::{DeepAgentBuilder, FILESYSTEM, HUMAN, STANDARD, UNBOUND};
use crate::middleware::ToolFilter;
use crate::middleware::skills::SkillSource;
use crate::middleware::subagents::{
    AgentFiles, DelegationLimits, GENERAL_PURPOSE, GENERAL_PURPOSE_DESCRIPTION, SubAgents,
};
use crate::permission_interrupts;
use crate::profile::{GeneralPurpose, HarnessProfile, ProfileConfig};
use crate::subagents::{
    AgentSubAgent, DynSubAgent, Headers, Mode, Registry, SubAgentResult, SubAgentSpec, sub_agent_fn,
};

/// Name of the middleware that lists skills.
const SKILLS: &str = "Skills";
/// Name of the middleware that shows memory.
const MEMORY: &str = "Memory";
/// Standard middlewares that sub-agents do not inherit.
const NOT_INHERITED: [&str; 3] = ["SubAgents", "BackgroundAgents", MEMORY];

/// Returns `true` if the model of a sub-agent is another than that of its parent, and its context window is known.
fn has_own_window(model: Option<&Arc<dyn ChatModel>>, parent: Option<&Arc<dyn ChatModel>>) -> bool {
    let Some(model) = model else { return false };
    let window = model.profile().context_window;
    let is_parents = parent.is_some_and(|parent| {
        Arc::ptr_eq(parent, model) || (parent.name() == model.name() && parent.profile().context_window == window)
    });
    !is_parents && window.is_some()
}

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
        let mut parent = Self { gives_way: standard || self.gives_way, ..self.clone() };
        parent.options.channels = self.channels_below();
        if standard {
            parent.sub_agents.insert(0, general_purpose(&said));
        }
        let bound = self.is_bound;
        let given = parent.sub_agents.iter().map(|spec| parent.make(spec, bound)).collect::<Result<Vec<_>, _>>()?;
        // Skills may define sub-agents, now or when they are written later.
        let has_skills = self.skills.is_some() || self.has_own(SKILLS);
        let (registry, files) = if !self.agent_sources.is_empty() || (has_skills && !self.is_leaf) {
            let files = AgentFiles::new(self.definitions(), self.agent_sources.clone())?;
            let replaceable = parent.gives_way.then_some(GENERAL_PURPOSE);
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
        let mut builder = match spec.mode {
            Mode::Fork => self.forked(spec, bound)?,
            Mode::Isolated => self.isolated(spec, bound)?,
        };
        if spec.permissions.as_ref().is_some_and(|rules| !rules.is_empty()) && builder.has_own(FILESYSTEM) {
            return Err(UNBOUND.to_owned());
        }
        if let Some(names) = &builder.only_tools {
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

    /// Returns a builder with the parts that every sub-agent shares with this agent.
    fn below(&self, spec: &SubAgentSpec, bound: bool) -> Result<Self, String> {
        let (model, settings) = self.model_for(spec, bound)?;
        let (tools, only_tools) = self.tools_for(spec, bound)?;
        let depth = self.depth + 1;
        let limits = limits_for(&self.limits, spec, depth);
        if !spec.sub_agents.is_empty() && depth >= limits.depth {
            return Err(format!(
                "its sub-agents would be at depth {}, but delegation may go no deeper than {}; raise \
                 `delegation_limits`, or remove them",
                depth + 1,
                limits.depth
            ));
        }
        let mut below = Self {
            model,
            tools,
            only_tools,
            limits,
            depth,
            is_bound: bound,
            workspace: self.workspace_for(spec)?,
            sub_agents: spec.sub_agents.clone(),
            agent_sources: Vec::new(),
            no_general_purpose: true,
            background: false,
            is_sub_agent: true,
            is_leaf: true,
            options: AgentOptions {
                name: Some(spec.name.clone()),
                description: Some(spec.description.clone()),
                settings: settings.unwrap_or_else(|| self.options.settings.clone()),
                format: spec.format()?,
                // A thread belongs to the main agent; the work of a sub-agent is part of the call that runs it.
                journal: None,
                // In addition to the shared budget of this agent's run.
                budget: self.budget_for(spec)?,
                ..self.options.clone()
            },
            ..self.clone()
        };
        let defaults = &self.sub_agent_defaults;
        let rules = spec.permissions.clone().map(Permissions::new).transpose().map_err(|error| error.to_string())?;
        if bound {
            let mut asked = spec.interrupt_on.clone().unwrap_or_default().asking();
            if let Some(rules) = rules.filter(|rules| !rules.is_empty()) {
                asked = asked.and(permission_interrupts::approvals(&rules));
                below.bounds.push(rules);
            }
            if !asked.is_empty() && self.cannot_wait() {
                return Err("it asks about calls, but the agent has no journal to keep questions in".to_owned());
            }
            let usual = defaults.interrupt_on.clone().unwrap_or(below.approvals);
            below.approvals = usual.and(asked);
        } else {
            below.permissions = match rules {
                // Its file rules replace the inherited ones; the rules for commands are kept.
                Some(rules) => rules.with_commands_of(&below.permissions),
                None => below.permissions,
            };
            let said = spec.interrupt_on.as_ref().or(defaults.interrupt_on.as_ref());
            below.approvals = said.cloned().unwrap_or(below.approvals);
        }
        below.approvals =
            below.approvals.and(defaults.middleware_approvals.clone()).and(spec.code.middleware_approvals.clone());
        if has_own_window(below.model.as_ref(), self.model.as_ref()) {
            below.summarization = below.summarization.for_other_model();
        }
        below.files.edit_tool = self.edit_tool_for(spec, bound)?;
        if let Some(summarization) = &spec.summarization {
            below.summarization = summarization.over(below.summarization).map_err(|error| error.to_string())?;
        }
        Ok(below)
    }

    fn isolated(&self, spec: &SubAgentSpec, bound: bool) -> Result<Self, String> {
        let code = &spec.code;
        let skills = match spec.skills.as_slice() {
            [] if code.inherits_skills => self.skills.clone(),
            [] => None,
            sources => Some(sources.iter().map(|source| SkillSource::from(source.as_str())).collect()),
        };
        // A user's replacement of a standard middleware restricts or extends what the agent may do, so sub-agents
        // inherit it. The user's other middlewares belong to the main agent alone.
        let standard = |name: &str| STANDARD.contains(&name) && !NOT_INHERITED.contains(&name);
        // An inherited `HumanInTheLoop` is dropped if the sub-agent has its own approvals, unless they are only added.
        let defaults = &self.sub_agent_defaults;
        let says = spec.interrupt_on.is_some() || defaults.interrupt_on.is_some();
        let asks =
            !bound && (says || !code.middleware_approvals.is_empty() || !defaults.middleware_approvals.is_empty());
        // Skills belong to the agent that lists them, except those that `general-purpose` shares.
        let shares_skills = code.inherits_skills && spec.skills.is_empty();
        let inherits = |name: &str| {
            let is_kept_back = (asks && name == HUMAN) || (name == SKILLS && !shares_skills);
            standard(name) && !is_kept_back && !self.replaces(spec, name)
        };
        let inherited = self.own.iter().filter(|m| inherits(m.name())).cloned();
        let own = inherited.chain(self.middlewares_for(spec)).collect();
        // Unknown names are rejected when the main agent's stack is built.
        let leaves_out = |name: &&String| standard(name) && name.as_str() != SKILLS;
        let without_base = || ProfileConfig { base_system_prompt: Some(String::new()), ..ProfileConfig::default() };
        Ok(Self {
            system_prompt: spec.system_prompt.as_deref().map(Into::into),
            system_blocks: Vec::new(),
            memory: None,
            skill_tools: if skills.is_some() { self.skill_tools.clone() } else { Vec::new() },
            skills,
            profile: code.without_base.then(|| without_base().into()),
            own,
            without: self.without.iter().filter(leaves_out).cloned().collect(),
            ..self.below(spec, bound)?
        })
    }

    /// Returns a builder of the same agent, so that the provider's cached prefix serves the sub-agent too; it may not
    /// delegate.
    fn forked(&self, spec: &SubAgentSpec, bound: bool) -> Result<Self, String> {
        if !spec.sub_agents.is_empty() {
            return Err("it shares the conversation and does its work itself; it cannot have sub-agents".to_owned());
        }
        if !spec.skills.is_empty() {
            return Err("it shares the conversation and with it the skills; it cannot have its own".to_owned());
        }
        let refusing = self.sub_agents.iter().map(|other| {
            let refuse = |_, _| async { Ok(SubAgentResult::text("Do this work yourself.")) };
            SubAgentSpec::from(sub_agent_fn(&other.name, other.listed_description(), refuse))
        });
        let mut builder = Self {
            limits: DelegationLimits { depth: 0, ..self.limits.clone() },
            sub_agents: refusing.collect(),
            // It lists the same sub-agents, wherever they are defined.
            agent_sources: self.agent_sources.clone(),
            is_leaf: self.is_leaf,
            ..self.below(spec, bound)?
        };
        builder.own.retain(|m| !self.replaces(spec, m.name()));
        builder.own.extend(self.middlewares_for(spec));
        Ok(builder)
    }
}
