//! Putting a deep agent together.

mod delegates;
mod stack;

use std::any::Any;
use std::sync::Arc;

use deepagents_core::agent::{Agent, BuildError};
use deepagents_core::env::{Clock, Ids};
use deepagents_core::error::Result;
use deepagents_core::journal::Journal;
use deepagents_core::middleware::{DynMiddleware, Middleware};
use deepagents_core::model::{ChatModel, ModelSettings};
use deepagents_core::run::{Context, Outcome, Run, RunError, RunInput};
use deepagents_core::state::State;
use deepagents_core::store::Store;
use deepagents_core::structured::ResponseFormat;
use deepagents_core::tool::DynTool;
use deepagents_fs::permissions::Permissions;
use deepagents_fs::{Backend, StateBackend};

use crate::approvals::Approvals;
use crate::explain::Explanation;
use crate::middleware::background::{BackgroundAgents, BackgroundLimits};
use crate::middleware::filesystem::FilesystemOptions;
use crate::middleware::skills::SkillSource;
use crate::middleware::subagents::{DelegationLimits, SubAgent, SubAgentSpec};
use crate::middleware::summarization::SummarizationOptions;
use crate::middleware::todo::TodoPolicy;
use crate::middleware::{
    Filesystem, HumanInTheLoop, Memory, PatchToolCalls, PromptCaching, Skills, Summarization, TodoList,
    UnsupportedContent,
};
use crate::permits;
use crate::profile::{Applied, HarnessProfile, Profiles};
use crate::workspace::Workspace;
use delegates::Delegate;
use stack::Stack;

/// An agent with the standard stack. Cloning it costs a reference count.
///
/// See the [crate documentation](crate) for an example.
#[derive(Clone, Debug)]
pub struct DeepAgent {
    agent: Agent,
}

/// Which standard stack to begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preset {
    /// Todo list, files, sub-agents, compaction, caching, repair, and a short prompt on how to work.
    #[default]
    Standard,
    /// Without todo list and without a prompt of our own.
    Lean,
}

/// Names of all middlewares that a standard stack may have: a profile for many agents may exclude one that this agent
/// happens not to have.
const STANDARD: [&str; 11] = [
    "TodoList",
    "Memory",
    "Skills",
    "Filesystem",
    "SubAgents",
    "BackgroundAgents",
    "Summarization",
    "PromptCaching",
    "PatchToolCalls",
    "HumanInTheLoop",
    "UnsupportedContent",
];

/// The name of the middleware that asks.
const HUMAN: &str = "HumanInTheLoop";

/// Puts a [`DeepAgent`] together.
#[derive(Clone)]
#[must_use]
pub struct DeepAgentBuilder {
    preset: Preset,
    name: Option<String>,
    model: Option<Arc<dyn ChatModel>>,
    system_prompt: Option<Arc<str>>,
    workspace: Workspace,
    files: FilesystemOptions,
    todos: TodoPolicy,
    summarization: SummarizationOptions,
    caching: PromptCaching,
    memory: Option<Vec<String>>,
    skills: Option<Vec<SkillSource>>,
    skill_tools: Vec<Arc<dyn DynTool>>,
    profiles: Profiles,
    profile: Option<HarnessProfile>,
    permissions: Permissions,
    approvals: Approvals,
    delegates: Vec<Delegate>,
    general_purpose: bool,
    background: bool,
    is_sub_agent: bool,
    limits: DelegationLimits,
    task_description: Option<String>,
    own: Vec<Arc<dyn DynMiddleware>>,
    without: Vec<String>,
    tools: Vec<Arc<dyn DynTool>>,
    settings: ModelSettings,
    format: Option<ResponseFormat>,
    max_model_calls: Option<u32>,
    journal: Option<Arc<dyn Journal>>,
    store: Option<Arc<dyn Store>>,
    clock: Option<Arc<dyn Clock>>,
    ids: Option<Arc<dyn Ids>>,
}

impl DeepAgent {
    /// Begins a deep agent.
    pub fn builder() -> DeepAgentBuilder {
        DeepAgentBuilder {
            preset: Preset::Standard,
            name: None,
            model: None,
            system_prompt: None,
            workspace: Workspace::One(Arc::new(StateBackend::new())),
            files: FilesystemOptions::default(),
            todos: TodoPolicy::default(),
            summarization: SummarizationOptions::default(),
            caching: PromptCaching::default(),
            memory: None,
            skills: None,
            skill_tools: Vec::new(),
            profiles: Profiles::builtin(),
            profile: None,
            permissions: Permissions::default(),
            approvals: Approvals::new(),
            delegates: Vec::new(),
            general_purpose: true,
            background: false,
            is_sub_agent: false,
            limits: DelegationLimits::default(),
            task_description: None,
            own: Vec::new(),
            without: Vec::new(),
            tools: Vec::new(),
            settings: ModelSettings::default(),
            format: None,
            max_model_calls: None,
            journal: None,
            store: None,
            clock: None,
            ids: None,
        }
    }

    /// Starts a run on the current Tokio runtime. Dropping the handle cancels it.
    pub fn run(&self, input: impl Into<RunInput>) -> Run {
        self.agent.run(input)
    }

    /// Runs to the end, without events.
    ///
    /// # Errors
    /// When the run fails; the error holds what it had finished.
    pub async fn invoke(&self, input: impl Into<RunInput>) -> Result<Outcome, Box<RunError>> {
        self.agent.invoke(input).await
    }

    /// The state of a thread; empty for an unknown one.
    ///
    /// # Errors
    /// When the agent has no journal or the log cannot be read.
    pub async fn state(&self, thread: &str) -> Result<State> {
        self.agent.state(thread).await
    }

    /// What the agent is made of, and what its first request costs.
    pub fn explain(&self) -> Explanation {
        Explanation::of(&self.agent)
    }

    /// The agent below.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }
}

impl DeepAgentBuilder {
    /// The model. Required.
    pub fn model(mut self, model: impl ChatModel) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// What the agent is told to be and do; comes first in the system prompt.
    pub fn system_prompt(mut self, text: impl Into<Arc<str>>) -> Self {
        self.system_prompt = Some(text.into());
        self
    }

    /// Another word for [`system_prompt`](Self::system_prompt).
    pub fn instructions(self, text: impl Into<Arc<str>>) -> Self {
        self.system_prompt(text)
    }

    /// The standard stack to begin with.
    pub fn preset(mut self, preset: Preset) -> Self {
        self.preset = preset;
        self
    }

    /// Names the agent, for events and usage.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds a tool. It takes the place of a standard tool with the same name.
    pub fn tool(self, tool: impl DynTool) -> Self {
        self.dyn_tool(Arc::new(tool))
    }

    /// Adds a tool chosen at run time.
    pub fn dyn_tool(mut self, tool: Arc<dyn DynTool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds a middleware after the standard ones; one with the name of a standard one takes its place. What a
    /// [`HumanInTheLoop`] asks about is added to [`interrupt_on`](Self::interrupt_on).
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        if let Some(human) = (&middleware as &dyn Any).downcast_ref::<HumanInTheLoop>() {
            self.approvals = self.approvals.and(human.approvals().clone());
            return self;
        }
        self.dyn_middleware(Arc::new(middleware))
    }

    /// Adds a middleware chosen at run time.
    pub fn dyn_middleware(mut self, middleware: Arc<dyn DynMiddleware>) -> Self {
        self.own.push(middleware);
        self
    }

    /// Leaves out a standard middleware, by name.
    pub fn without(mut self, name: impl Into<String>) -> Self {
        self.without.push(name.into());
        self
    }

    /// Where the files are; in the thread's state by default.
    pub fn backend(self, backend: impl Backend) -> Self {
        self.dyn_backend(Arc::new(backend))
    }

    /// Where the files are, chosen at run time.
    pub fn dyn_backend(mut self, backend: Arc<dyn Backend>) -> Self {
        self.workspace = Workspace::One(backend);
        self
    }

    /// Where the files are, made for each run from its context: one place per user, per tenant.
    pub fn backend_per_run(mut self, make: impl Fn(&Context) -> Arc<dyn Backend> + Send + Sync + 'static) -> Self {
        self.workspace = Workspace::PerRun(Arc::new(make));
        self
    }

    /// How the file tools behave.
    pub fn files(mut self, options: FilesystemOptions) -> Self {
        self.files = options;
        self
    }

    /// Rules of the todo list.
    pub fn todos(mut self, policy: TodoPolicy) -> Self {
        self.todos = policy;
        self
    }

    /// How the conversation is kept within the model's window; see [`Summarization`].
    pub fn summarization(mut self, options: SummarizationOptions) -> Self {
        self.summarization = options;
        self
    }

    /// How the prompt is cached.
    pub fn caching(mut self, caching: PromptCaching) -> Self {
        self.caching = caching;
        self
    }

    /// Puts these files, such as `/AGENTS.md`, into every request; see [`Memory`].
    pub fn memory<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.memory = Some(paths.into_iter().map(Into::into).collect());
        self
    }

    /// Lists the skills in these directories; of two with one name the later directory's is used. See [`Skills`].
    pub fn skills<S: Into<SkillSource>>(mut self, sources: impl IntoIterator<Item = S>) -> Self {
        self.skills = Some(sources.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a tool that is offered once the model has read a skill that names it; see [`Skills::tool`].
    pub fn skill_tool(mut self, tool: impl DynTool) -> Self {
        self.skill_tools.push(Arc::new(tool));
        self
    }

    /// Where the profile of the model is looked up; among the [built-in](Profiles::builtin) ones by default.
    pub fn profiles(mut self, profiles: Profiles) -> Self {
        self.profiles = profiles;
        self
    }

    /// A profile for this agent, over the one found for its model.
    pub fn profile(mut self, profile: impl Into<HarnessProfile>) -> Self {
        self.profile = Some(profile.into());
        self
    }

    /// What may be done with which files: bound by it are the file tools, memory, skills and stored results, here and in
    /// sub-agents that have no rules of their own. A rule that asks needs what [`interrupt_on`](Self::interrupt_on) needs.
    pub fn permissions(mut self, rules: Permissions) -> Self {
        self.permissions = rules;
        self
    }

    /// What a person is asked about before it is done. Said twice, both hold. Needs a journal, and runs with a thread: a
    /// call cannot wait where nothing is kept. Sub-agents are asked about the same unless they say otherwise.
    pub fn interrupt_on(mut self, approvals: Approvals) -> Self {
        self.approvals = self.approvals.and(approvals);
        self
    }

    /// Adds a sub-agent to delegate to; one named `general-purpose` takes the place of the standard one.
    pub fn sub_agent(mut self, spec: SubAgentSpec) -> Self {
        self.delegates.push(Delegate::Spec(Box::new(spec)));
        self
    }

    /// Adds a sub-agent that is not described but made: any agent, a closure, a type of one's own.
    pub fn custom_sub_agent(mut self, agent: impl SubAgent) -> Self {
        self.delegates.push(Delegate::Made(Arc::new(agent)));
        self
    }

    /// Whether there is the sub-agent `general-purpose`; there is unless switched off.
    pub fn general_purpose(mut self, on: bool) -> Self {
        self.general_purpose = on;
        self
    }

    /// Whether described sub-agents that do not share the conversation can also be started in the background, with
    /// tools to follow them; off unless switched on. See [`BackgroundAgents`].
    pub fn background_agents(mut self, on: bool) -> Self {
        self.background = on;
        self
    }

    /// How far delegation may go.
    pub fn delegation_limits(mut self, limits: DelegationLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Describes the tool `task` in other words; `{available_agents}` in them becomes the list of sub-agents.
    pub fn task_description(mut self, text: impl Into<String>) -> Self {
        self.task_description = Some(text.into());
        self
    }

    /// Asks for the answer in a shape.
    pub fn response_format(mut self, format: ResponseFormat) -> Self {
        self.format = Some(format);
        self
    }

    /// Sampling and the like, for every model call.
    pub fn settings(mut self, settings: ModelSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Limits the model calls of a run; 9999 by default.
    pub fn max_model_calls(mut self, limit: u32) -> Self {
        self.max_model_calls = Some(limit);
        self
    }

    /// Keeps threads.
    pub fn journal(self, journal: impl Journal) -> Self {
        self.dyn_journal(Arc::new(journal))
    }

    /// Keeps threads in a shared journal.
    pub fn dyn_journal(mut self, journal: Arc<dyn Journal>) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Gives the agent long-term memory.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Tells the time.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Makes ids.
    pub fn ids(mut self, ids: impl Ids) -> Self {
        self.ids = Some(Arc::new(ids));
        self
    }

    /// Refuses approvals that could not be had.
    fn check_approvals(&self, approvals: &Approvals) -> Result<(), BuildError> {
        if let Some(tool) = approvals.undecidable() {
            return Err(BuildError::Option(format!(
                "nothing may be decided about calls of `{tool}`; allow at least one of approve, edit, reject and respond"
            )));
        }
        if self.own.iter().any(|m| m.name() == HUMAN) {
            return Err(BuildError::Option(format!(
                "a middleware of the name `{HUMAN}` would take the place of the one that asks before calls are made; \
                 give it another name, or ask about nothing else"
            )));
        }
        if self.journal.is_none() && !self.is_sub_agent {
            return Err(BuildError::Option(
                "calls that wait for a decision are kept in a journal; give the builder one with `.journal(...)`"
                    .into(),
            ));
        }
        Ok(())
    }

    /// Builds the agent.
    ///
    /// # Errors
    /// When the model is missing, calls are asked about and there is no journal to keep the questions in, names clash, or a name given to [`without`](Self::without) is none of the stack's.
    pub fn build(self) -> Result<DeepAgent, BuildError> {
        let options = self.clone();
        let model = self.model.ok_or_else(|| {
            BuildError::Option(
                "no model: give the builder one with `.model(...)`, for example from a `Registry`".into(),
            )
        })?;
        let workspace = match self.permissions.is_empty() {
            true => self.workspace,
            // A command reaches whatever the shell reaches, whatever the rules say.
            false if matches!(&self.workspace, Workspace::One(backend) if backend.shell().is_some()) => {
                return Err(BuildError::Option(
                    "permission rules cannot bind commands: take the shell off the backend, or the rules".into(),
                ));
            }
            false => self.workspace.guarded(self.permissions.clone()),
        };
        let approvals = self.approvals.and(permits::approvals(&self.permissions));
        let profile = Applied::find(&self.profiles, model.name(), self.profile)?;
        let mut stack = Stack::default();
        if self.preset == Preset::Standard {
            stack.push(TodoList::new(self.todos));
        }
        if let Some(paths) = self.memory {
            stack.push(Memory::on(workspace.clone(), paths)?);
        }
        if let Some(sources) = self.skills {
            let skills = Skills::on(workspace.clone(), sources)?;
            stack.push(self.skill_tools.into_iter().fold(skills, Skills::dyn_tool));
        } else if !self.skill_tools.is_empty() {
            return Err(BuildError::Option(
                "there are skill tools but no skills; name sources with `.skills(...)`".into(),
            ));
        }
        stack.push(Filesystem::on(workspace.clone()).options(self.files));
        let mut background = Vec::new();
        if let Some(sub_agents) = options.delegation(&profile, &mut background)? {
            stack.push(sub_agents);
        }
        if self.background {
            stack.push(BackgroundAgents::new(background, BackgroundLimits::default())?);
        }
        stack.push(Summarization::on(workspace, model.clone(), self.summarization)?);
        stack.push(self.caching);
        stack.push(PatchToolCalls::default());
        if !approvals.is_empty() {
            options.check_approvals(&approvals)?;
            stack.push_last(HumanInTheLoop::new(approvals));
        }
        stack.push_last(UnsupportedContent::default());
        let mut own = self.own;
        let there = |name: &str| stack.has(name) || own.iter().any(|m| m.name() == name);
        let extras = profile.extras(|name| there(name) || self.without.iter().any(|without| without == name));
        own.extend(extras);
        let mut middlewares = stack.finish(own, &self.without)?;
        // A profile for all agents of a model may exclude what only some of them have.
        profile.prune(&mut middlewares, |name| self.is_sub_agent || STANDARD.contains(&name))?;
        let mut tools = self.tools;
        profile.describe(&middlewares, &mut tools);

        let mut builder = Agent::builder(model).settings(self.settings);
        builder = self.system_prompt.into_iter().fold(builder, |b, text| b.system_prompt(text));
        let standard = include_str!("../prompts/base.md").trim_end();
        let base = (self.preset == Preset::Standard).then_some(standard);
        builder = profile.prompts(base).fold(builder, |b, text| b.system_prompt(text));
        builder = middlewares.into_iter().fold(builder, |b, m| b.dyn_middleware(m));
        builder = tools.into_iter().fold(builder, |b, t| b.dyn_tool(t));
        builder = self.name.into_iter().fold(builder, |b, name| b.name(name));
        builder = self.format.into_iter().fold(builder, |b, format| b.response_format(format));
        builder = self.max_model_calls.into_iter().fold(builder, |b, limit| b.max_model_calls(limit));
        builder = self.journal.into_iter().fold(builder, |b, journal| b.dyn_journal(journal));
        builder = self.store.into_iter().fold(builder, |b, store| b.store(store));
        builder = self.clock.into_iter().fold(builder, |b, clock| b.dyn_clock(clock));
        builder = self.ids.into_iter().fold(builder, |b, ids| b.dyn_ids(ids));
        Ok(DeepAgent { agent: builder.build()? })
    }
}

impl std::fmt::Debug for DeepAgentBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeepAgentBuilder")
            .field("preset", &self.preset)
            .field("model", &self.model.as_ref().map(|m| m.name().to_owned()))
            .field("own", &self.own.iter().map(|m| m.name()).collect::<Vec<_>>())
            .field("without", &self.without)
            .finish_non_exhaustive()
    }
}
