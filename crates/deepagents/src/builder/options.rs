//! The options of a deep agent.

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
use crate::artifacts::ArtifactRequest;
use crate::middleware::background::BackgroundLimits;
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
        /// Sets the model. Required.
        model(model: impl ChatModel) => model = Some(Arc::new(model));

        /// Sets the agent's role and instructions, which come first in the system prompt.
        system_prompt(text: impl Into<Arc<str>>) => system_prompt = Some(text.into());

        /// Sets the standard stack to start from.
        preset(preset: Preset) => preset = preset;
    }

    /// Adds a block to the system prompt, after [`system_prompt`](Self::system_prompt): text or a medium such as a
    /// picture, with or without a cache mark. Marks given here are kept; those of [`PromptCaching`] are dropped where
    /// the total would exceed the provider's limit.
    pub fn system_block(mut self, block: impl Into<SystemBlock>) -> Self {
        self.system_blocks.push(block.into());
        self
    }

    /// An alias for [`system_prompt`](Self::system_prompt).
    pub fn instructions(self, text: impl Into<Arc<str>>) -> Self {
        self.system_prompt(text)
    }

    /// Adds a tool. It replaces a standard tool of the same name. The build fails if one of your own middlewares has a
    /// tool of that name.
    pub fn tool(mut self, tool: impl DynTool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds a middleware after the standard ones; it replaces a standard one of the same name. The policy of a
    /// [`HumanInTheLoop`] is added to [`interrupt_on`](Self::interrupt_on).
    ///
    /// Sub-agents go without it, also the standard `general-purpose`, unless it replaces a standard one. A middleware that
    /// guards something belongs in [`shared_middleware`](Self::shared_middleware).
    pub fn middleware(mut self, middleware: impl DynMiddleware) -> Self {
        if let Some(policy) = HumanInTheLoop::policy_of(&middleware) {
            self.approvals = self.approvals.and(policy);
            return self;
        }
        self.own.push(Arc::new(middleware));
        self
    }

    /// Adds a middleware, as [`middleware`](Self::middleware) does, to this agent and to all sub-agents built from a
    /// spec.
    pub fn shared_middleware(mut self, middleware: impl DynMiddleware) -> Self {
        self.shared.push(Arc::new(middleware));
        self
    }

    /// Leaves out a standard middleware, by name. `HumanInTheLoop` cannot be left out if anything needs approval.
    pub fn without(mut self, name: impl Into<String>) -> Self {
        self.without.push(name.into());
        self
    }

    crate::shared::setters! {
        /// Runs hooks, also for sub-agents; see [`hooks`](crate::middleware::hooks).
        hooks(hooks: HookRunner) => hooks = Some(hooks);

        /// Redacts personal data and secrets, also in sub-agents built from a spec; see
        /// [`Redaction`](crate::middleware::Redaction).
        redaction(redaction: Redaction) => redaction = Some(redaction);

        /// Sets the backend of the files. By default they are kept in the thread's state.
        backend(backend: impl Backend) => workspace = Workspace::one(backend);

        /// Creates the backend of the files for each run from its context, for example one per user or tenant.
        backend_per_run(make: impl Fn(&Context) -> Arc<dyn Backend> + Send + Sync + 'static)
            => workspace = Workspace::per_run(make);

        /// Keeps what is too long for a conversation (large results, messages that a summary replaced, long messages)
        /// in other files than those of the backend, for example in a directory for each thread. The agent and its
        /// sub-agents find it at the same paths; commands do not see it, and a rewind leaves it as it is. If `find`
        /// returns `None` for a run, its backend has the directory.
        artifact_files(find: impl Fn(&ArtifactRequest<'_>) -> Option<Arc<dyn Backend>> + Send + Sync + 'static)
            => artifact_files = Some(Shared(Arc::new(find)));

        /// Sets the options of the file tools.
        files(options: FilesystemOptions) => files = options;

        /// Sets when an agent that repeats itself is warned and when it is stopped; see
        /// [`LoopDetection`](crate::middleware::LoopDetection).
        loop_detection(policy: LoopPolicy) => loops = policy;

        /// Sets the policy of the todo list.
        todos(policy: TodoPolicy) => todos = policy;

        /// Sets a planner that fills the todo list in code before the first model call, such as
        /// [`ListPlanner`](crate::middleware::todo::ListPlanner). There is none by default. Sub-agents use it for their
        /// tasks as well.
        planner(planner: impl Planner) => planner = Some(Arc::new(planner));

        /// Sets how the conversation is kept within the context window; see
        /// [`Summarization`](crate::middleware::Summarization).
        summarization(options: SummarizationOptions) => summarization = options;

        /// Sets how the prompt is cached.
        caching(caching: PromptCaching) => caching = caching;

        /// Includes these files, such as `/AGENTS.md`, in every request; see [`Memory`](crate::middleware::Memory).
        memory(paths: impl IntoIterator<Item = impl Into<String>>)
            => memory = Some(paths.into_iter().map(Into::into).collect());

        /// Lists the skills in these directories. If two have the same name, the one in the later directory is used.
        /// See [`Skills`](crate::middleware::Skills).
        skills(sources: impl IntoIterator<Item = impl Into<SkillSource>>)
            => skills = Some(sources.into_iter().map(Into::into).collect());

        /// Reads memory, skills and sub-agent files from this backend instead of the agent's own, under the same paths:
        /// for example [`TrustedFiles`](crate::trust::TrustedFiles) that a person has approved. The file tools do not
        /// see it.
        definitions_from(files: impl Backend) => definitions = Some(Workspace::one(files));
    }

    /// Adds a tool that is offered once the model has read a skill that names it; see
    /// [`Skills::tool`](crate::middleware::Skills::tool).
    pub fn skill_tool(mut self, tool: impl DynTool) -> Self {
        self.skill_tools.push(Arc::new(tool));
        self
    }

    crate::shared::setters! {
        /// Sets the profiles among which that of the model is looked up; the [built-in](Profiles::builtin) ones by
        /// default.
        profiles(profiles: Profiles) => profiles = profiles;

        /// Sets a profile for this agent, which overrides the one found for its model.
        profile(profile: impl Into<HarnessProfile>) => profile = Some(profile.into());

        /// Sets which operations are permitted on which files. The rules bind the file tools, memory, skills and stored
        /// results, here and in sub-agents without rules of their own. A rule that asks has the same requirements as
        /// [`interrupt_on`](Self::interrupt_on).
        permissions(rules: Permissions) => permissions = rules;
    }

    /// Sets which tool calls need a person's approval. The policies of several calls are combined. Requires a journal,
    /// and runs with a thread: a call can only wait if its state is stored. Sub-agents inherit the policy unless they
    /// have their own.
    ///
    /// The build fails for a name that no tool of this agent or its sub-agents has, unless it is a standard tool's,
    /// ends with `*`, or tools may appear later, such as those of a server; [`explain`](Self::explain) then lists it.
    pub fn interrupt_on(mut self, approvals: InterruptPolicy) -> Self {
        self.approvals = self.approvals.and(approvals);
        self
    }

    /// Adds a sub-agent: a spec, or an implementation such as [`sub_agent_fn`](crate::subagents::sub_agent_fn) or any
    /// [`SubAgent`](crate::subagents::SubAgent). Permissions and approvals of a spec replace those of this agent. One
    /// named `general-purpose` replaces the standard one.
    pub fn sub_agent(mut self, agent: impl Into<SubAgentSpec>) -> Self {
        self.sub_agents.push(agent.into());
        self
    }

    /// Reads sub-agents from the files `<name>.md` and `<name>/AGENTS.md` in these directories: front matter with the
    /// fields of a [`SubAgentSpec`], followed by the prompt. If two have the same name, the one in the later directory
    /// is used. The files are checked at the start of a run and read again if they have changed. Problems are reported
    /// in the event `sub_agents_loaded`, and the run continues without the file.
    ///
    /// Permissions and approvals of a file are added to those of this agent and cannot relax them, as an agent may be
    /// able to write such files itself. The same applies to sub-agents that skills define, which require only
    /// [`skills`](Self::skills). If names clash, code takes precedence over files, and files over skills.
    pub fn agents_from<S: Into<AgentSource>>(mut self, sources: impl IntoIterator<Item = S>) -> Self {
        self.agent_sources = sources.into_iter().map(Into::into).collect();
        self
    }

    /// Registers a built agent that sub-agent specs can refer to as `runnable` or `graph`.
    pub fn runnable(mut self, name: impl Into<String>, agent: &Agent) -> Self {
        self.runnables.insert(name.into(), agent.clone());
        self
    }

    /// Registers files that sub-agent specs can refer to as `backend`. The rules of this agent bind them as well.
    pub fn named_backend(mut self, name: impl Into<String>, backend: impl Backend) -> Self {
        self.named_backends.insert(name.into(), Shared(Arc::new(backend)));
        self
    }

    crate::shared::setters! {
        /// Sets the registry of the models that sub-agent specs name.
        #[cfg(feature = "models")]
        models(registry: Registry) => models = Some(registry);

        /// Offers the tools of MCP servers, here and in sub-agents. The servers are shared; their creator must
        /// [close](deepagents_mcp::McpServers::close) them. To give a sub-agent its own servers, add them as its
        /// [middleware](SubAgentSpec::middleware).
        #[cfg(feature = "mcp")]
        mcp(servers: &deepagents_mcp::McpServers) => mcp = Some(servers.clone());

        /// Sets what specs of sub-agents on remote servers may use: the variables in their headers, and whether files
        /// may define such sub-agents at all, which they may not by default. See
        /// [`RemoteSubAgent`](crate::subagents::RemoteSubAgent).
        #[cfg(feature = "remote")]
        remote(access: crate::subagents::RemoteAccess) => remote = access;

        /// Sets whether the sub-agent `general-purpose` exists. On by default.
        general_purpose(on: bool) => no_general_purpose = !on;

        /// Sets whether sub-agents can also be started in the background, with tools to follow them. Off by default.
        /// See [`BackgroundAgents`](crate::middleware::background::BackgroundAgents).
        background_agents(on: bool) => background = on;

        /// Sets the limits of background agents.
        background_limits(limits: BackgroundLimits) => background_limits = limits;

        /// Sets the limits of delegation.
        delegation_limits(limits: DelegationLimits) => limits = limits;

        /// Replaces the description of the tool `task`; `{available_agents}` in it becomes the list of sub-agents.
        task_description(text: impl Into<String>) => task_description = Some(text.into());

        /// Adds a section to the system prompt on when and how to delegate. There is none by default.
        delegation_prompt(text: impl Into<Arc<str>>) => delegation_prompt = Some(text.into());

        /// Sets the defaults of sub-agents: model, tools, middlewares, approvals.
        sub_agent_defaults(defaults: SubAgentDefaults) => sub_agent_defaults = defaults;
    }

    deepagents_core::agent_option_methods!();
}
