//! What a deep agent is told to be made of.

use std::any::Any;
use std::sync::Arc;

use deepagents_core::env::{Clock, Ids};
use deepagents_core::journal::Journal;
use deepagents_core::middleware::{DynMiddleware, Middleware};
use deepagents_core::model::{ChatModel, ModelSettings};
use deepagents_core::run::{Budget, Context};
use deepagents_core::store::Store;
use deepagents_core::structured::ResponseFormat;
use deepagents_core::tool::DynTool;
use deepagents_fs::Backend;
use deepagents_fs::permissions::Permissions;
use deepagents_models::Registry;

use super::delegates::Delegate;
use super::{DeepAgent, DeepAgentBuilder, Preset};
use crate::approvals::Approvals;
use crate::definition::AgentDefinition;
use crate::middleware::filesystem::FilesystemOptions;
use crate::middleware::skills::SkillSource;
use crate::middleware::subagents::{AgentSource, DelegationLimits, SubAgent, SubAgentSpec};
use crate::middleware::summarization::SummarizationOptions;
use crate::middleware::todo::{Planner, TodoPolicy};
use crate::middleware::{HumanInTheLoop, PromptCaching};
use crate::profile::{HarnessProfile, Profiles};
use crate::workspace::Workspace;

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
        self.options.name = Some(name.into());
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

    /// Leaves out a standard middleware, by name. Not `HumanInTheLoop` where something is to be asked about.
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

    /// Lays out the todo list in code before the model is asked for the first time, such as with
    /// [`ExplicitList`](crate::middleware::todo::ExplicitList); nothing does unless it is given here. Sub-agents have
    /// their tasks laid out by it as well.
    pub fn planner(mut self, planner: impl Planner) -> Self {
        self.planner = Some(Arc::new(planner));
        self
    }

    /// How the conversation is kept within the model's window; see [`Summarization`](crate::middleware::Summarization).
    pub fn summarization(mut self, options: SummarizationOptions) -> Self {
        self.summarization = options;
        self
    }

    /// How the prompt is cached.
    pub fn caching(mut self, caching: PromptCaching) -> Self {
        self.caching = caching;
        self
    }

    /// Puts these files, such as `/AGENTS.md`, into every request; see [`Memory`](crate::middleware::Memory).
    pub fn memory<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.memory = Some(paths.into_iter().map(Into::into).collect());
        self
    }

    /// Lists the skills in these directories; of two with one name the later directory's is used. See
    /// [`Skills`](crate::middleware::Skills).
    pub fn skills<S: Into<SkillSource>>(mut self, sources: impl IntoIterator<Item = S>) -> Self {
        self.skills = Some(sources.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a tool that is offered once the model has read a skill that names it; see
    /// [`Skills::tool`](crate::middleware::Skills::tool).
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

    /// What may be done with which files: bound by it are the file tools, memory, skills and stored results, here and
    /// in sub-agents that have no rules of their own. A rule that asks needs what [`interrupt_on`](Self::interrupt_on)
    /// needs.
    pub fn permissions(mut self, rules: Permissions) -> Self {
        self.permissions = rules;
        self
    }

    /// What a person is asked about before it is done. Said twice, both hold. Needs a journal, and runs with a thread:
    /// a call cannot wait where nothing is kept. Sub-agents are asked about the same unless they say otherwise.
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

    /// Adds a sub-agent given as data. What it says of permissions and approvals takes the place of what this agent
    /// has.
    pub fn define_sub_agent(mut self, definition: AgentDefinition) -> Self {
        self.delegates.push(Delegate::Defined(Box::new(definition)));
        self
    }

    /// Reads sub-agents from the files `<name>.md`, and `<name>/AGENTS.md`, in these directories: front matter with the
    /// fields of an [`AgentDefinition`], and the prompt below it. Of two with one name the later directory's is used.
    /// They are looked at when a run begins, and read again when something there has changed; what is wrong with a file
    /// is told in the event `sub_agents_loaded`, and the run goes on without it.
    ///
    /// What a file says of permissions and approvals is added to what this agent has and takes nothing of it away: an
    /// agent may be able to write such files itself. The same goes for sub-agents that skills define, which need
    /// nothing but [`skills`](Self::skills). Names given here in code come first, then those of files, then those of
    /// skills.
    pub fn agents_from<S: Into<AgentSource>>(mut self, sources: impl IntoIterator<Item = S>) -> Self {
        self.agent_sources = sources.into_iter().map(Into::into).collect();
        self
    }

    /// Names a built agent for definitions of sub-agents, which say it as `runnable` or `graph`.
    pub fn runnable(mut self, name: impl Into<String>, agent: &DeepAgent) -> Self {
        self.runnables.insert(name.into(), agent.agent.clone());
        self
    }

    /// Where the models come from that definitions of sub-agents name.
    pub fn models(mut self, registry: Registry) -> Self {
        self.models = Some(registry);
        self
    }

    /// Whether there is the sub-agent `general-purpose`; there is unless switched off.
    pub fn general_purpose(mut self, on: bool) -> Self {
        self.general_purpose = on;
        self
    }

    /// Whether sub-agents can also be started in the background, with tools to follow them; off unless switched on. See
    /// [`BackgroundAgents`](crate::middleware::background::BackgroundAgents).
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
        self.options.format = Some(format);
        self
    }

    /// Sampling and the like, for every model call.
    pub fn settings(mut self, settings: ModelSettings) -> Self {
        self.options.settings = settings;
        self
    }

    /// Limits the model calls of the agent in a run, and of each described sub-agent; 9999 by default.
    pub fn max_model_calls(mut self, limit: u32) -> Self {
        self.options.max_model_calls = Some(limit);
        self
    }

    /// What a run may spend with all its sub-agents, where the run's own budget does not say otherwise; see [`Budget`].
    pub fn budget(mut self, budget: Budget) -> Self {
        self.options.budget = budget;
        self
    }

    /// Keeps threads.
    pub fn journal(self, journal: impl Journal) -> Self {
        self.dyn_journal(Arc::new(journal))
    }

    /// Keeps threads in a shared journal.
    pub fn dyn_journal(mut self, journal: Arc<dyn Journal>) -> Self {
        self.options.journal = Some(journal);
        self
    }

    /// Gives the agent long-term memory.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.options.store = Some(store);
        self
    }

    /// Tells the time.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.options.clock = Some(Arc::new(clock));
        self
    }

    /// Makes ids.
    pub fn ids(mut self, ids: impl Ids) -> Self {
        self.options.ids = Some(Arc::new(ids));
        self
    }
}
