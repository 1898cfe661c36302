//! From descriptions of sub-agents to agents.

use std::any::Any;
use std::sync::Arc;

use deepagents_core::agent::{AgentOptions, BuildError};
use deepagents_core::run::Budget;

use super::{DeepAgentBuilder, FILESYSTEM, HUMAN, STANDARD, UNBOUND};
use crate::definition::{AgentDefinition, Mode};
use crate::middleware::background::BackgroundAgent;
use crate::middleware::skills::SkillSource;
use crate::middleware::subagents::{
    AgentFiles, AgentSubAgent, Delegation, DelegationLimits, DynSubAgent, GENERAL_PURPOSE, GENERAL_PURPOSE_DESCRIPTION,
    Report, SubAgentSpec, SubAgents, ToolSelection, described, sub_agent_fn,
};
use crate::permits;
use crate::profile::{Applied, ProfileConfig};
use crate::roster::Roster;

/// The name of the middleware that lists skills.
const SKILLS: &str = "Skills";

/// A sub-agent as the builder was given it.
#[derive(Clone)]
pub(super) enum Delegate {
    Spec(Box<SubAgentSpec>),
    Defined(Box<AgentDefinition>),
    Made(Arc<dyn DynSubAgent>),
}

impl Delegate {
    fn name(&self) -> &str {
        match self {
            Self::Spec(spec) => &spec.name,
            Self::Defined(definition) => &definition.name,
            Self::Made(agent) => agent.name(),
        }
    }

    /// As the model reads it.
    fn description(&self) -> String {
        match self {
            Self::Spec(spec) => described(&spec.description, spec.mode),
            Self::Defined(definition) => described(&definition.description, definition.mode),
            Self::Made(agent) => agent.description().to_owned(),
        }
    }
}

/// Sub-agents as they were given, `general-purpose` among them.
#[derive(Clone)]
pub(super) struct Delegates {
    list: Vec<Delegate>,
    /// Whether `general-purpose` is the standard one.
    gives_way: bool,
}

/// What an agent can delegate to.
pub(super) struct Team {
    pub(super) sub_agents: Option<SubAgents>,
    pub(super) background: Roster<BackgroundAgent>,
}

/// Neither the library's base prompt nor that of a profile.
fn without_base() -> ProfileConfig {
    ProfileConfig { base_system_prompt: Some(String::new()), ..ProfileConfig::default() }
}

impl DeepAgentBuilder {
    /// The sub-agents, `general-purpose` first unless it is switched off or described by the user.
    pub(super) fn delegation(&self, profile: &Applied) -> Result<Team, BuildError> {
        let mut list = self.delegates.clone();
        let said = profile.profile.config.general_purpose_subagent.clone().unwrap_or_default();
        let wanted = self.general_purpose && said.enabled != Some(false);
        let standard = wanted && !list.iter().any(|d| d.name() == GENERAL_PURPOSE);
        if standard {
            let description = said.description.as_deref().unwrap_or(GENERAL_PURPOSE_DESCRIPTION);
            let prompt = said.system_prompt.as_deref().unwrap_or(include_str!("../prompts/general_purpose.md"));
            let mut general = SubAgentSpec::new(GENERAL_PURPOSE, description).system_prompt(prompt.trim_end());
            general.inherits_skills = true;
            general.without_base = said.system_prompt.is_some();
            list.insert(0, Delegate::Spec(Box::new(general)));
        }
        let all = Delegates { list, gives_way: standard || self.gives_way };
        // Skills may define sub-agents, now or once they are written.
        let has_skills = self.skills.is_some() || self.own.iter().any(|own| own.name() == SKILLS);
        let open = !self.agent_sources.is_empty() || (has_skills && !self.is_leaf);
        let mut agents: Vec<Arc<dyn DynSubAgent>> = Vec::new();
        for delegate in &all.list {
            agents.push(match delegate {
                Delegate::Made(agent) => agent.clone(),
                Delegate::Spec(spec) => self.make(spec, &all)?,
                Delegate::Defined(definition) => self.defined(definition, &all, false)?,
            });
        }
        let depth = self.limits.depth;
        let given: Vec<BackgroundAgent> = agents.iter().map(|agent| in_background(agent.clone(), depth)).collect();
        if !open {
            let sub_agents =
                if agents.is_empty() { None } else { Some(self.sub_agents(Roster::fixed(agents), None, profile)?) };
            return Ok(Team { sub_agents, background: Roster::fixed(given) });
        }
        let gives_way = all.gives_way.then_some(GENERAL_PURPOSE);
        let (options, delegates) = (self.clone(), all);
        let made = move |definition: &AgentDefinition| {
            options.defined(definition, &delegates, true).map_err(|error| error.to_string())
        };
        let made = Arc::new(made);
        let in_turn = made.clone();
        let roster = Roster::open(agents, gives_way, move |definition| in_turn(definition));
        let background = Roster::open(given, gives_way, move |definition| Ok(in_background(made(definition)?, depth)));
        let files = AgentFiles::new(self.workspace_below(), self.agent_sources.clone())?;
        Ok(Team { sub_agents: Some(self.sub_agents(roster, Some(files), profile)?), background })
    }

    fn sub_agents(
        &self,
        roster: Roster<Arc<dyn DynSubAgent>>,
        files: Option<AgentFiles>,
        profile: &Applied,
    ) -> Result<SubAgents, BuildError> {
        let sub_agents = SubAgents::on(roster, self.limits.clone(), files)?;
        let described = self.task_description.as_ref().or_else(|| profile.task_description());
        Ok(match described {
            Some(text) => sub_agents.task_description(text),
            None => sub_agents,
        })
    }

    /// The files of this agent, bound by its rules.
    fn workspace_below(&self) -> crate::workspace::Workspace {
        match self.permissions.is_empty() {
            true => self.workspace.clone(),
            false => self.workspace.clone().guarded(self.permissions.clone()),
        }
    }

    /// The sub-agent of a definition. A bound one is allowed no more than this agent.
    fn defined(
        &self,
        definition: &AgentDefinition,
        all: &Delegates,
        bound: bool,
    ) -> Result<Arc<dyn DynSubAgent>, BuildError> {
        let wrong = |why: String| BuildError::Option(format!("sub-agent `{}`: {why}", definition.name));
        if let Some(name) = &definition.runnable {
            if let Some(key) = definition.beside_runnable() {
                return Err(wrong(format!("`{key}` cannot be given beside `runnable`, which is built already")));
            }
            let Some(agent) = self.runnables.get(name) else {
                return Err(wrong(format!("no agent `{name}` was given with `.runnable(...)`")));
            };
            let agent = AgentSubAgent::of(&definition.name, &definition.description, agent.clone());
            return Ok(Arc::new(agent.mode(definition.mode)));
        }
        let spec = self.spec(definition, bound).map_err(wrong)?;
        Ok(self.make(&spec, all)?)
    }

    fn spec(&self, definition: &AgentDefinition, bound: bool) -> Result<SubAgentSpec, String> {
        let mut spec = SubAgentSpec::new(&definition.name, &definition.description).mode(definition.mode);
        spec.bound = bound;
        spec.system_prompt = definition.system_prompt.as_deref().map(Into::into);
        spec.skills.clone_from(&definition.skills);
        spec.summarization.clone_from(&definition.summarization);
        spec.format = definition.format()?;
        spec.approvals = definition.approvals();
        if let Some(rules) = &definition.permissions {
            spec.permissions = Some(
                deepagents_fs::permissions::Permissions::new(rules.iter().cloned())
                    .map_err(|error| error.to_string())?,
            );
        }
        if let Some(model) = &definition.model {
            if bound && model.has_extra() {
                return Err(
                    "`extra` of a model can be given in code alone, as it reaches beyond this agent's tools".to_owned()
                );
            }
            let above = self.model.as_ref().map(|model| model.name());
            if let Some(name) = model.full_name().filter(|name| Some(name.as_str()) != above) {
                let Some(models) = &self.models else {
                    return Err(format!(
                        "the model `{name}` is not that of the agent above; say with `.models(...)` where it comes from"
                    ));
                };
                spec.model = Some(models.model(&name).map_err(|error| error.to_string())?);
            }
            spec.settings = model.settings()?;
        }
        if let Some(names) = &definition.tools {
            let named = |tool: &&Arc<dyn deepagents_core::tool::DynTool>| names.contains(&tool.spec().name);
            spec.tools = Some(self.tools.iter().filter(named).cloned().collect());
            spec.only = Some(names.iter().cloned().collect());
        }
        Ok(spec)
    }

    fn make(&self, spec: &SubAgentSpec, all: &Delegates) -> Result<Arc<AgentSubAgent>, BuildError> {
        let wrong = |why: String| BuildError::Option(format!("sub-agent `{}`: {why}", spec.name));
        let mut builder = match spec.mode {
            Mode::Fork => self.forked(spec, all)?,
            Mode::Isolated => self.isolated(spec),
        };
        if let Some(definition) = &spec.summarization {
            builder.summarization = definition.over(builder.summarization)?;
        }
        let rules = spec.permissions.as_ref().is_some_and(|rules| !rules.is_empty());
        if rules && builder.own.iter().any(|own| own.name() == FILESYSTEM) {
            return Err(wrong(UNBOUND.to_owned()));
        }
        if spec.bound && self.options.journal.is_none() && !self.is_sub_agent {
            let asks = spec.approvals.as_ref().is_some_and(|approvals| !approvals.is_empty());
            let rules = spec.permissions.as_ref().is_some_and(|rules| !permits::approvals(rules).is_empty());
            if asks || rules {
                return Err(wrong("it asks about calls, and the agent has no journal to keep questions in".to_owned()));
            }
        }
        if let Some(only) = &spec.only {
            // The answer in a shape may be a tool of its own.
            let shape = spec.format.iter().map(|format| format.name().to_owned());
            builder.own.push(Arc::new(ToolSelection { names: only.iter().cloned().chain(shape).collect() }));
        }
        let agent = builder.build().map_err(|error| wrong(error.to_string()))?;
        if let Some(only) = &spec.only {
            let there: Vec<&str> = agent.agent().tools().iter().map(|tool| tool.name.as_str()).collect();
            if let Some(missing) = only.iter().find(|name| !there.contains(&name.as_str())) {
                let own: Vec<String> = self.tools.iter().map(|tool| tool.spec().name).collect();
                let mut known: Vec<&str> = there.into_iter().chain(own.iter().map(String::as_str)).collect();
                known.sort_unstable();
                known.dedup();
                return Err(wrong(format!("there is no tool `{missing}` for it; there are {}", known.join(", "))));
            }
        }
        let instructions = spec.system_prompt.clone().filter(|_| spec.mode == Mode::Fork);
        let made = AgentSubAgent::new(&spec.name, &spec.description, &agent).mode(spec.mode);
        Ok(Arc::new(made.instructions(instructions)))
    }

    /// What every sub-agent has in common with this agent.
    fn below(&self, spec: &SubAgentSpec) -> Self {
        let mut below = Self {
            model: spec.model.clone().or_else(|| self.model.clone()),
            tools: spec.tools.clone().unwrap_or_else(|| self.tools.clone()),
            delegates: Vec::new(),
            agent_sources: Vec::new(),
            general_purpose: false,
            background: false,
            is_sub_agent: true,
            is_leaf: true,
            options: AgentOptions {
                name: Some(spec.name.clone()),
                settings: spec.settings.clone().unwrap_or_else(|| self.options.settings.clone()),
                format: spec.format.clone(),
                // A thread is the main agent's; what its sub-agents do is part of the call that runs them.
                journal: None,
                // They share what the run of this agent may spend.
                budget: Budget::default(),
                ..self.options.clone()
            },
            ..self.clone()
        };
        if spec.bound {
            if let Some(rules) = spec.permissions.as_ref().filter(|rules| !rules.is_empty()) {
                below.workspace = below.workspace.guarded(rules.clone());
                below.approvals = below.approvals.and(permits::approvals(rules));
            }
            below.approvals = below.approvals.and(spec.approvals.clone().unwrap_or_default().asking());
        } else {
            below.permissions = spec.permissions.clone().unwrap_or(below.permissions);
            below.approvals = spec.approvals.clone().unwrap_or(below.approvals);
        }
        below.approvals = below.approvals.and(spec.more_approvals.clone());
        below
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
        // What asks in the user's way gives way to what the sub-agent says it is asked about, unless that only adds to it.
        let asks = !spec.bound && (spec.approvals.is_some() || !spec.more_approvals.is_empty());
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
            profile: spec.without_base.then(|| without_base().into()),
            own: inherited.chain(&spec.middlewares).cloned().collect(),
            without: self.without.iter().filter(leaves_out).cloned().collect(),
            ..self.below(spec)
        }
    }

    /// The same agent once more, so that what its provider has cached serves the sub-agent too; it may not delegate.
    fn forked(&self, spec: &SubAgentSpec, all: &Delegates) -> Result<Self, BuildError> {
        if !spec.skills.is_empty() {
            return Err(BuildError::Option(format!(
                "sub-agent `{}` shares the conversation and with it the skills; it cannot have its own",
                spec.name
            )));
        }
        let refusing = all.list.iter().map(|other| {
            let refuse = |_, _| async { Ok(Report::text("Do this work yourself.")) };
            Arc::new(sub_agent_fn(other.name(), other.description(), refuse)) as Arc<dyn DynSubAgent>
        });
        let limits = DelegationLimits { depth: 0, ..self.limits.clone() };
        let mut builder = Self {
            limits,
            delegates: refusing.map(Delegate::Made).collect(),
            // It lists the same sub-agents, wherever they are defined.
            agent_sources: self.agent_sources.clone(),
            gives_way: all.gives_way,
            is_leaf: self.is_leaf,
            ..self.below(spec)
        };
        let replaced = |name: &str| spec.middlewares.iter().any(|own| own.name() == name);
        builder.own.retain(|m| !replaced(m.name()));
        builder.own.extend(spec.middlewares.iter().cloned());
        Ok(builder)
    }
}

/// The same sub-agent for work that is not waited for.
fn in_background(agent: Arc<dyn DynSubAgent>, depth: usize) -> BackgroundAgent {
    let (name, description) = (agent.name().to_owned(), agent.description().to_owned());
    let any: &dyn Any = &*agent;
    match any.downcast_ref::<AgentSubAgent>().cloned() {
        Some(sub) => {
            let runs = sub.agent().clone();
            BackgroundAgent::begun(name, description, runs, move |text, cx| {
                sub.start(&Delegation::new(text, depth), cx)
            })
        }
        None => BackgroundAgent::call(name, description, move |text, cx| {
            let agent = agent.clone();
            async move { Ok(agent.run(Delegation::new(text, depth), cx).await?.output) }
        }),
    }
}
