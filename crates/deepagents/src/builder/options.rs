//! What a deep agent is told to be made of.

use std::any::Any;
use std::sync::Arc;

use deepagents_core::agent::Agent;
use deepagents_core::middleware::DynMiddleware;
use deepagents_core::model::{ChatModel, SystemBlock};
use deepagents_core::run::Context;
use deepagents_core::tool::DynTool;
use deepagents_fs::Backend;
use deepagents_fs::permissions::Permissions;
#[cfg(feature = "models")]
use deepagents_models::Registry;

use super::{DeepAgentBuilder, Preset};
use crate::approvals::InterruptPolicy;
use crate::middleware::filesystem::FilesystemOptions;
use crate::middleware::hooks::HookRunner;
use crate::middleware::loop_detection::LoopPolicy;
use crate::middleware::skills::SkillSource;
use crate::middleware::subagents::{AgentSource, DelegationLimits};
use crate::middleware::summarization::SummarizationOptions;
use crate::middleware::todo::{Planner, TodoPolicy};
use crate::middleware::{HumanInTheLoop, PromptCaching, Redaction};
use crate::profile::{HarnessProfile, Profiles};
use crate::shared::Shared;
use crate::subagents::{SubAgentDefaults, SubAgentSpec};
use crate::workspace::Workspace;

impl DeepAgentBuilder {
    crate::shared::setters! {
        /// The model. Required.
        model(model: impl ChatModel) => model = Some(Arc::new(model));

        /// What the agent is told to be and do; comes first in the system prompt.
        system_prompt(text: impl Into<Arc<str>>) => system_prompt = Some(text.into());
    }

    /// Adds a block to what the agent is told, after [`system_prompt`](Self::system_prompt): text or a medium such as a
    /// picture, with a cache mark or without. Marks given here are kept; those of [`PromptCaching`] give way where a provider
    /// would count more than it takes.
    pub fn system_block(mut self, block: impl Into<SystemBlock>) -> Self {
        self.system_blocks.push(block.into());
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

    /// Adds a tool. It takes the place of a standard tool with the same name; beside a middleware of your own that has one
    /// of the name, the agent is not built.
    pub fn tool(mut self, tool: impl DynTool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds a middleware after the standard ones; one with the name of a standard one takes its place. What a
    /// [`HumanInTheLoop`] asks about is added to [`interrupt_on`](Self::interrupt_on).
    pub fn middleware(mut self, middleware: impl DynMiddleware) -> Self {
        if let Some(human) = (&middleware as &dyn Any).downcast_ref::<HumanInTheLoop>() {
            self.approvals = self.approvals.and(human.approvals().clone());
            return self;
        }
        self.own.push(Arc::new(middleware));
        self
    }

    /// Adds a middleware as [`middleware`](Self::middleware) does, to this agent and to all sub-agents that are described.
    pub fn shared_middleware(mut self, middleware: impl DynMiddleware) -> Self {
        self.shared.push(Arc::new(middleware));
        self
    }

    /// Runs hooks, for sub-agents as well; see [`hooks`](crate::middleware::hooks).
    pub fn hooks(mut self, hooks: HookRunner) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// Hides personal data and secrets, for sub-agents that are described as well; see
    /// [`Redaction`](crate::middleware::Redaction).
    pub fn redaction(mut self, redaction: Redaction) -> Self {
        self.redaction = Some(redaction);
        self
    }

    /// Leaves out a standard middleware, by name. Not `HumanInTheLoop` where something is to be asked about.
    pub fn without(mut self, name: impl Into<String>) -> Self {
        self.without.push(name.into());
        self
    }

    crate::shared::setters! {
        /// Where the files are; in the thread's state by default.
        backend(backend: impl Backend) => workspace = Workspace::one(backend);

        /// Where the files are, made for each run from its context: one place per user, per tenant.
        backend_per_run(make: impl Fn(&Context) -> Arc<dyn Backend> + Send + Sync + 'static)
            => workspace = Workspace::per_run(make);

        /// How the file tools behave.
        files(options: FilesystemOptions) => files = options;

        /// When the agent is told that it repeats itself, and when it is stopped; see
        /// [`LoopDetection`](crate::middleware::LoopDetection).
        loop_detection(policy: LoopPolicy) => loops = policy;

        /// Rules of the todo list.
        todos(policy: TodoPolicy) => todos = policy;

        /// Lays out the todo list in code before the model is asked for the first time, such as with
        /// [`ListPlanner`](crate::middleware::todo::ListPlanner); nothing does unless it is given here. Sub-agents have
        /// their tasks laid out by it as well.
        planner(planner: impl Planner) => planner = Some(Arc::new(planner));

        /// How the conversation is kept within the model's window; see
        /// [`Summarization`](crate::middleware::Summarization).
        summarization(options: SummarizationOptions) => summarization = options;

        /// How the prompt is cached.
        caching(caching: PromptCaching) => caching = caching;
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

    /// Reads memory, skills and files of sub-agents from this backend in the place of the agent's own, which has the
    /// same paths: [`TrustedFiles`](crate::trust::TrustedFiles) that a person agreed to. The file tools do not see it.
    pub fn definitions_from(mut self, files: impl Backend) -> Self {
        self.definitions = Some(Workspace::one(files));
        self
    }

    /// Adds a tool that is offered once the model has read a skill that names it; see
    /// [`Skills::tool`](crate::middleware::Skills::tool).
    pub fn skill_tool(mut self, tool: impl DynTool) -> Self {
        self.skill_tools.push(Arc::new(tool));
        self
    }

    crate::shared::setters! {
        /// Where the profile of the model is looked up; among the [built-in](Profiles::builtin) ones by default.
        profiles(profiles: Profiles) => profiles = profiles;

        /// A profile for this agent, over the one found for its model.
        profile(profile: impl Into<HarnessProfile>) => profile = Some(profile.into());

        /// What may be done with which files: bound by it are the file tools, memory, skills and stored results, here
        /// and in sub-agents that have no rules of their own. A rule that asks needs what
        /// [`interrupt_on`](Self::interrupt_on) needs.
        permissions(rules: Permissions) => permissions = rules;
    }

    /// What a person is asked about before it is done. Said twice, both hold. Needs a journal, and runs with a thread:
    /// a call cannot wait where nothing is kept. Sub-agents are asked about the same unless they say otherwise. A name that
    /// neither this agent nor a sub-agent has a tool of is refused when the agent is built, unless it is that of a standard
    /// tool, it ends with `*`, or tools may come later, such as those of a server: [`explain`](Self::explain) lists it then.
    pub fn interrupt_on(mut self, approvals: InterruptPolicy) -> Self {
        self.approvals = self.approvals.and(approvals);
        self
    }

    /// Adds a sub-agent to delegate to: a description, or what does the work by itself, such as
    /// [`sub_agent_fn`](crate::subagents::sub_agent_fn) or any [`SubAgent`](crate::subagents::SubAgent). What a
    /// description says of permissions and approvals takes the place of what this agent has. One named
    /// `general-purpose` takes the place of the standard one.
    pub fn sub_agent(mut self, agent: impl Into<SubAgentSpec>) -> Self {
        self.sub_agents.push(agent.into());
        self
    }

    /// Reads sub-agents from the files `<name>.md`, and `<name>/AGENTS.md`, in these directories: front matter with the
    /// fields of a [`SubAgentSpec`], and the prompt below it. Of two with one name the later directory's is used.
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

    /// Names a built agent for descriptions of sub-agents, which say it as `runnable` or `graph`.
    pub fn runnable(mut self, name: impl Into<String>, agent: &Agent) -> Self {
        self.runnables.insert(name.into(), agent.clone());
        self
    }

    /// Names files for descriptions of sub-agents, which say it as `backend`. The rules of this agent bind them as well.
    pub fn named_backend(mut self, name: impl Into<String>, backend: impl Backend) -> Self {
        self.named_backends.insert(name.into(), Shared(Arc::new(backend)));
        self
    }

    /// Where the models come from that descriptions of sub-agents name.
    #[cfg(feature = "models")]
    pub fn models(mut self, registry: Registry) -> Self {
        self.models = Some(registry);
        self
    }

    /// Offers the tools of MCP servers, here and in sub-agents. The servers are shared: whoever made them
    /// [closes](deepagents_mcp::McpServers::close) them. A sub-agent with servers of its own is given these as a
    /// [middleware](SubAgentSpec::middleware).
    #[cfg(feature = "mcp")]
    pub fn mcp(mut self, servers: &deepagents_mcp::McpServers) -> Self {
        self.mcp = Some(servers.clone());
        self
    }

    /// What descriptions of sub-agents on other servers may name: variables in their headers, and whether files may describe
    /// such at all; they may not unless it is said here. See [`RemoteSubAgent`](crate::subagents::RemoteSubAgent).
    #[cfg(feature = "remote")]
    pub fn remote(mut self, access: crate::subagents::RemoteAccess) -> Self {
        self.remote = access;
        self
    }

    crate::shared::setters! {
        /// Whether there is the sub-agent `general-purpose`; there is unless switched off.
        general_purpose(on: bool) => no_general_purpose = !on;

        /// Whether sub-agents can also be started in the background, with tools to follow them; off unless switched on.
        /// See [`BackgroundAgents`](crate::middleware::background::BackgroundAgents).
        background_agents(on: bool) => background = on;

        /// How far delegation may go.
        delegation_limits(limits: DelegationLimits) => limits = limits;

        /// Describes the tool `task` in other words; `{available_agents}` in them becomes the list of sub-agents.
        task_description(text: impl Into<String>) => task_description = Some(text.into());

        /// A section of the system prompt on when and how to delegate; none unless given.
        delegation_prompt(text: impl Into<Arc<str>>) => delegation_prompt = Some(text.into());

        /// What all sub-agents have that do not say otherwise: model, tools, middlewares, what is asked about.
        sub_agent_defaults(defaults: SubAgentDefaults) => sub_agent_defaults = defaults;
    }

    deepagents_core::agent_option_methods!();
}
