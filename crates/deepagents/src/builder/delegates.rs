//! From descriptions of sub-agents to agents.

use std::sync::Arc;

use deepagents_core::agent::BuildError;

use super::{DeepAgentBuilder, HUMAN, STANDARD};
use crate::middleware::background::BackgroundAgent;
use crate::middleware::skills::SkillSource;
use crate::middleware::subagents::{
    AgentSubAgent, DelegationLimits, DynSubAgent, GENERAL_PURPOSE, GENERAL_PURPOSE_DESCRIPTION, Mode, Report,
    SubAgentSpec, SubAgents, sub_agent_fn,
};
use crate::profile::Applied;

/// A sub-agent as the builder was given it.
#[derive(Clone)]
pub(super) enum Delegate {
    Spec(Box<SubAgentSpec>),
    Made(Arc<dyn DynSubAgent>),
}

impl Delegate {
    fn name(&self) -> &str {
        match self {
            Self::Spec(spec) => &spec.name,
            Self::Made(agent) => agent.name(),
        }
    }

    fn description(&self) -> &str {
        match self {
            Self::Spec(spec) => &spec.description,
            Self::Made(agent) => agent.description(),
        }
    }
}

impl DeepAgentBuilder {
    /// The sub-agents, `general-purpose` first unless it is switched off or described by the user; those that can run
    /// in the background are added to `background`.
    pub(super) fn delegation(
        &self,
        profile: &Applied,
        background: &mut Vec<BackgroundAgent>,
    ) -> Result<Option<SubAgents>, BuildError> {
        let mut delegates = self.delegates.clone();
        let said = profile.profile.config.general_purpose_subagent.clone().unwrap_or_default();
        let wanted = self.general_purpose && said.enabled != Some(false);
        if wanted && !delegates.iter().any(|d| d.name() == GENERAL_PURPOSE) {
            let description = said.description.as_deref().unwrap_or(GENERAL_PURPOSE_DESCRIPTION);
            let prompt = said.system_prompt.as_deref().unwrap_or(include_str!("../prompts/general_purpose.md"));
            let mut general = SubAgentSpec::new(GENERAL_PURPOSE, description).system_prompt(prompt.trim_end());
            general.inherits_skills = true;
            delegates.insert(0, Delegate::Spec(Box::new(general)));
        }
        if delegates.is_empty() {
            return Ok(None);
        }
        let mut agents: Vec<Arc<dyn DynSubAgent>> = Vec::new();
        for delegate in &delegates {
            match delegate {
                Delegate::Made(agent) => agents.push(agent.clone()),
                Delegate::Spec(spec) => {
                    let made = self.make(spec, &delegates)?;
                    if spec.mode == Mode::Isolated {
                        let (name, description) = (spec.name.clone(), spec.description.clone());
                        background.push(BackgroundAgent { name, description, agent: made.agent().clone() });
                    }
                    agents.push(made);
                }
            }
        }
        let sub_agents = SubAgents::new(agents, self.limits.clone())?;
        let described = self.task_description.as_ref().or_else(|| profile.task_description());
        Ok(Some(match described {
            Some(text) => sub_agents.task_description(text),
            None => sub_agents,
        }))
    }

    fn make(&self, spec: &SubAgentSpec, all: &[Delegate]) -> Result<Arc<AgentSubAgent>, BuildError> {
        let builder = match spec.mode {
            Mode::Isolated => self.isolated(spec),
            Mode::Fork => self.forked(spec, all)?,
        };
        let agent =
            builder.build().map_err(|error| BuildError::Option(format!("sub-agent `{}`: {error}", spec.name)))?;
        Ok(Arc::new(AgentSubAgent::new(&spec.name, &spec.description, &agent).mode(spec.mode)))
    }

    /// What every sub-agent has in common with this agent.
    fn below(&self, spec: &SubAgentSpec) -> Self {
        Self {
            name: Some(spec.name.clone()),
            model: spec.model.clone().or_else(|| self.model.clone()),
            tools: spec.tools.clone().unwrap_or_else(|| self.tools.clone()),
            format: spec.format.clone(),
            permissions: spec.permissions.clone().unwrap_or_else(|| self.permissions.clone()),
            approvals: spec
                .approvals
                .clone()
                .unwrap_or_else(|| self.approvals.clone())
                .and(spec.more_approvals.clone()),
            delegates: Vec::new(),
            general_purpose: false,
            background: false,
            is_sub_agent: true,
            // A thread is the main agent's; what its sub-agents do is part of the call that runs them.
            journal: None,
            ..self.clone()
        }
    }

    fn isolated(&self, spec: &SubAgentSpec) -> Self {
        let skills = match spec.skills.as_slice() {
            [] if spec.inherits_skills => self.skills.clone(),
            [] => None,
            sources => Some(sources.iter().map(|source| SkillSource::from(source.as_str())).collect()),
        };
        // What the user has put in the place of a standard part narrows or widens what the agent may do, and so holds
        // below as well; the user's other middlewares are the main agent's own.
        let inherited = self
            .own
            .iter()
            .filter(|m| STANDARD.contains(&m.name()) && !["SubAgents", "BackgroundAgents"].contains(&m.name()));
        let inherited = inherited.filter(|m| !spec.middlewares.iter().any(|own| own.name() == m.name()));
        // What asks in the user's way gives way to what the sub-agent says it is asked about.
        let asks = spec.approvals.is_some() || !spec.more_approvals.is_empty();
        let inherited = inherited.filter(|m| !(asks && m.name() == HUMAN));
        // An unknown name is refused where the main agent's stack is made.
        let leaves_out = |name: &&String| {
            STANDARD.contains(&name.as_str())
                && !["Memory", "Skills", "SubAgents", "BackgroundAgents"].contains(&name.as_str())
        };
        Self {
            system_prompt: spec.system_prompt.clone(),
            memory: None,
            skill_tools: if skills.is_some() { self.skill_tools.clone() } else { Vec::new() },
            skills,
            profile: None,
            own: inherited.chain(&spec.middlewares).cloned().collect(),
            without: self.without.iter().filter(leaves_out).cloned().collect(),
            ..self.below(spec)
        }
    }

    /// The same agent once more, so that what its provider has cached serves the sub-agent too; it may not delegate.
    fn forked(&self, spec: &SubAgentSpec, all: &[Delegate]) -> Result<Self, BuildError> {
        if !spec.skills.is_empty() {
            return Err(BuildError::Option(format!(
                "sub-agent `{}` shares the conversation and with it the skills; it cannot have its own",
                spec.name
            )));
        }
        let refusing = all.iter().map(|other| {
            let refuse = |_, _| async { Ok(Report::text("Do this work yourself.")) };
            Arc::new(sub_agent_fn(other.name(), other.description(), refuse)) as Arc<dyn DynSubAgent>
        });
        let limits = DelegationLimits { depth: 0, ..self.limits.clone() };
        let mut builder = Self { limits, delegates: refusing.map(Delegate::Made).collect(), ..self.below(spec) };
        let replaced = |name: &str| spec.middlewares.iter().any(|own| own.name() == name);
        builder.own.retain(|m| !replaced(m.name()));
        builder.own.extend(spec.middlewares.iter().cloned());
        Ok(builder)
    }
}
