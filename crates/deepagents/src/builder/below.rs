//! Derives the builder of a sub-agent from that of its parent.
//!
//! [`DeepAgentBuilder::below`] names every option, so a new one does not compile until it is decided whether sub-agents
//! inherit it.

use std::sync::Arc;

use deepagents_core::agent::AgentOptions;
use deepagents_core::middleware::DynMiddleware;
use deepagents_core::model::{ChatModel, ModelSettings, SystemBlock};
use deepagents_core::tool::DynTool;
use deepagents_fs::permissions::Permissions;

use super::inherit::limits_for;
use super::nesting::Nesting;
use super::sub_agents::SKILLS;
use super::{DeepAgentBuilder, HUMAN, STANDARD};
use crate::approvals::InterruptPolicy;
use crate::middleware::skills::SkillSource;
use crate::middleware::subagents::{AgentSource, DelegationLimits};
use crate::middleware::summarization::SummarizationOptions;
use crate::permission_interrupts;
use crate::profile::{HarnessProfile, ProfileConfig};
use crate::subagents::{Mode, SubAgentResult, SubAgentSpec, sub_agent_fn};

/// Name of the middleware that shows memory.
const MEMORY: &str = "Memory";
/// Standard middlewares that sub-agents do not inherit.
const NOT_INHERITED: [&str; 3] = ["SubAgents", "BackgroundAgents", MEMORY];

/// The parts of a sub-agent that depend on whether it shares the conversation.
struct ModeParts {
    system_prompt: Option<Arc<str>>,
    system_blocks: Vec<SystemBlock>,
    memory: Option<Vec<String>>,
    skills: Option<Vec<SkillSource>>,
    skill_tools: Vec<Arc<dyn DynTool>>,
    profile: Option<HarnessProfile>,
    own: Vec<Arc<dyn DynMiddleware>>,
    without: Vec<String>,
    sub_agents: Vec<SubAgentSpec>,
    agent_sources: Vec<AgentSource>,
    limits: DelegationLimits,
    is_leaf: bool,
    gives_way: bool,
}

/// What a sub-agent may do, and what a person is asked about.
struct Rules {
    permissions: Permissions,
    bounds: Vec<Permissions>,
    approvals: InterruptPolicy,
}

/// Returns `true` if the model of a sub-agent is another than that of its parent, and its context window is known.
fn has_own_window(model: Option<&Arc<dyn ChatModel>>, parent: Option<&Arc<dyn ChatModel>>) -> bool {
    let Some(model) = model else { return false };
    let window = model.profile().context_window;
    let is_parents = parent.is_some_and(|parent| {
        Arc::ptr_eq(parent, model) || (parent.name() == model.name() && parent.profile().context_window == window)
    });
    !is_parents && window.is_some()
}

impl DeepAgentBuilder {
    /// Returns the builder of a sub-agent. A bound one is allowed no more than this agent.
    pub(super) fn below(&self, spec: &SubAgentSpec, bound: bool) -> Result<Self, String> {
        let (model, settings) = self.model_for(spec, bound)?;
        let (tools, only_tools) = self.tools_for(spec, bound)?;
        let depth = self.nesting.depth + 1;
        let limits = limits_for(&self.limits, spec, depth);
        let ModeParts {
            system_prompt,
            system_blocks,
            memory,
            skills,
            skill_tools,
            profile,
            own,
            without,
            sub_agents,
            agent_sources,
            limits,
            is_leaf,
            gives_way,
        } = match spec.mode {
            Mode::Fork => self.forked(spec, &limits)?,
            Mode::Isolated => self.isolated(spec, limits, bound),
        };
        if !spec.sub_agents.is_empty() && depth >= limits.depth {
            return Err(format!(
                "its sub-agents would be at depth {}, but delegation may go no deeper than {}; raise \
                 `delegation_limits`, or remove them",
                depth + 1,
                limits.depth
            ));
        }
        let Rules { permissions, bounds, approvals } = self.rules_for(spec, bound)?;
        let summarization = self.summarization_for(spec, model.as_ref())?;
        let mut files = self.files.clone();
        files.edit_tool = self.edit_tool_for(spec, bound)?;
        // Complete on purpose, see above.
        Ok(Self {
            preset: self.preset,
            model,
            system_prompt,
            system_blocks,
            workspace: self.workspace_for(spec)?,
            artifact_files: self.artifact_files.clone(),
            definitions: self.definitions.clone(),
            files,
            loops: self.loops.clone(),
            todos: self.todos.clone(),
            planner: self.planner.clone(),
            summarization,
            caching: self.caching,
            memory,
            skills,
            skill_tools,
            profiles: self.profiles.clone(),
            profile,
            permissions,
            approvals,
            sub_agents,
            agent_sources,
            runnables: self.runnables.clone(),
            #[cfg(feature = "models")]
            models: self.models.clone(),
            #[cfg(feature = "mcp")]
            mcp: self.mcp.clone(),
            #[cfg(feature = "remote")]
            remote: self.remote.clone(),
            no_general_purpose: true,
            background: false,
            background_limits: self.background_limits.clone(),
            limits,
            task_description: self.task_description.clone(),
            delegation_prompt: self.delegation_prompt.clone(),
            sub_agent_defaults: self.sub_agent_defaults.clone(),
            named_backends: self.named_backends.clone(),
            own,
            shared: self.shared.clone(),
            hooks: self.hooks.clone(),
            redaction: self.redaction.clone(),
            without,
            tools,
            options: self.options_for(spec, settings)?,
            nesting: Nesting { depth, is_bound: bound, bounds, only_tools, is_leaf, gives_way },
        })
    }

    /// Returns the core's options of a sub-agent. Complete, as [`below`](Self::below) is.
    fn options_for(&self, spec: &SubAgentSpec, settings: Option<ModelSettings>) -> Result<AgentOptions, String> {
        let above = &self.options;
        Ok(AgentOptions {
            name: Some(spec.name.clone()),
            description: Some(spec.description.clone()),
            settings: settings.unwrap_or_else(|| above.settings.clone()),
            format: spec.format()?,
            max_model_calls: above.max_model_calls,
            // In addition to the shared budget of this agent's run.
            budget: self.budget_for(spec)?,
            // A thread belongs to the main agent; the work of a sub-agent is part of the call that runs it.
            journal: None,
            process: above.process.clone(),
            store: above.store.clone(),
            clock: above.clock.clone(),
            ids: above.ids.clone(),
            observers: above.observers.clone(),
            provider_tools: above.provider_tools.clone(),
            channels: above.channels.clone(),
        })
    }

    /// Returns the rules and approvals of a sub-agent. Those of a bound one are added to this agent's; those of another
    /// replace them.
    fn rules_for(&self, spec: &SubAgentSpec, bound: bool) -> Result<Rules, String> {
        let defaults = &self.sub_agent_defaults;
        let mut bounds = self.nesting.bounds.clone();
        let rules = spec.permissions.clone().map(Permissions::new).transpose().map_err(|error| error.to_string())?;
        let (permissions, approvals) = if bound {
            let mut asked = spec.interrupt_on.clone().unwrap_or_default().asking();
            if let Some(rules) = rules.filter(|rules| !rules.is_empty()) {
                asked = asked.and(permission_interrupts::approvals(&rules));
                bounds.push(rules);
            }
            if !asked.is_empty() && self.cannot_wait() {
                return Err("it asks about calls, but the agent has no journal to keep questions in".to_owned());
            }
            let usual = defaults.interrupt_on.as_ref().unwrap_or(&self.approvals).clone();
            (self.permissions.clone(), usual.and(asked))
        } else {
            let permissions = match rules {
                // Its file rules replace the inherited ones; the rules for commands are kept.
                Some(rules) => rules.with_commands_of(&self.permissions),
                None => self.permissions.clone(),
            };
            let said = spec.interrupt_on.as_ref().or(defaults.interrupt_on.as_ref());
            (permissions, said.unwrap_or(&self.approvals).clone())
        };
        let approvals =
            approvals.and(defaults.middleware_approvals.clone()).and(spec.code.middleware_approvals.clone());
        Ok(Rules { permissions, bounds, approvals })
    }

    /// Returns how the conversation of a sub-agent with this model is kept within the context window.
    fn summarization_for(
        &self,
        spec: &SubAgentSpec,
        model: Option<&Arc<dyn ChatModel>>,
    ) -> Result<SummarizationOptions, String> {
        let mut options = self.summarization.clone();
        if has_own_window(model, self.model.as_ref()) {
            options = options.for_other_model();
        }
        match &spec.summarization {
            Some(own) => own.over(options).map_err(|error| error.to_string()),
            None => Ok(options),
        }
    }

    /// Returns the parts of a sub-agent with a conversation of its own.
    fn isolated(&self, spec: &SubAgentSpec, limits: DelegationLimits, bound: bool) -> ModeParts {
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
        ModeParts {
            system_prompt: spec.system_prompt.as_deref().map(Into::into),
            system_blocks: Vec::new(),
            memory: None,
            skill_tools: if skills.is_some() { self.skill_tools.clone() } else { Vec::new() },
            skills,
            profile: code.without_base.then(|| without_base().into()),
            own,
            without: self.without.iter().filter(leaves_out).cloned().collect(),
            sub_agents: spec.sub_agents.clone(),
            agent_sources: Vec::new(),
            limits,
            is_leaf: true,
            gives_way: false,
        }
    }

    /// Returns the parts of a sub-agent that shares the conversation: those of this agent, so that the provider's cached
    /// prefix serves the sub-agent too. It may not delegate.
    fn forked(&self, spec: &SubAgentSpec, limits: &DelegationLimits) -> Result<ModeParts, String> {
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
        let kept = self.own.iter().filter(|m| !self.replaces(spec, m.name())).cloned();
        Ok(ModeParts {
            system_prompt: self.system_prompt.clone(),
            system_blocks: self.system_blocks.clone(),
            memory: self.memory.clone(),
            skills: self.skills.clone(),
            skill_tools: self.skill_tools.clone(),
            profile: self.profile.clone(),
            own: kept.chain(self.middlewares_for(spec)).collect(),
            without: self.without.clone(),
            // It lists the same sub-agents, wherever they are defined.
            sub_agents: refusing.collect(),
            agent_sources: self.agent_sources.clone(),
            limits: DelegationLimits { depth: 0, ..limits.clone() },
            is_leaf: self.nesting.is_leaf,
            gives_way: self.nesting.gives_way,
        })
    }
}
