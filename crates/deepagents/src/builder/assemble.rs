//! Assembles an agent from the builder's options.

use std::sync::Arc;

use deepagents_core::agent::{Agent, BuildError, ThreadAccess};
use deepagents_core::middleware::Middleware;
use deepagents_core::model::{ChatModel, NoModel};

use super::checks::refused;
use super::nesting::Nesting;
use super::stack::{Middlewares, Stack};
use super::{DeepAgent, DeepAgentBuilder, Preset, STANDARD};
use crate::explain::Explanation;
use crate::middleware::background::BackgroundAgents;
use crate::middleware::hooks::HookRunner;
use crate::middleware::{
    Filesystem, HumanInTheLoop, LoopDetection, Memory, PatchToolCalls, Skills, Summarization, TodoList,
    UnsupportedContent,
};
use crate::permission_interrupts;
use crate::profile::HarnessProfile;
use crate::workspace::Workspace;

impl DeepAgentBuilder {
    /// Returns the files of this agent under the rules that it cannot drop.
    pub(super) fn bound_workspace(&self) -> Workspace {
        let workspace = self.workspace.clone().artifacts_below(&self.files.artifacts_root);
        let workspace = workspace.keeping(self.artifact_files.clone());
        self.nesting.bounds.iter().cloned().fold(workspace, Workspace::guarded)
    }

    /// Returns the files of this agent under all its rules.
    pub(super) fn guarded_workspace(&self) -> Workspace {
        self.bound_workspace().guarded(self.permissions.clone())
    }

    /// Returns the files from which memory, skills and sub-agent files are read, under the rules of this agent.
    pub(super) fn definitions(&self) -> Workspace {
        match &self.definitions {
            Some(files) => files.clone().guarded(self.permissions.clone()),
            None => self.guarded_workspace(),
        }
    }

    /// Returns an error of the agent's own options, if any. Sub-agents inherit the options, so the error must not be
    /// blamed on them.
    fn own_fault(&self) -> Option<BuildError> {
        let delegates = |name: &str| ["SubAgents", "BackgroundAgents"].contains(&name);
        let alone = Self {
            sub_agents: Vec::new(),
            agent_sources: Vec::new(),
            no_general_purpose: true,
            nesting: Nesting { is_leaf: true, ..self.nesting.clone() },
            background: false,
            without: self.without.iter().filter(|name| !delegates(name)).cloned().collect(),
            ..self.clone()
        };
        alone.assemble().err()
    }

    /// Explains the agent that would be built. A model is not required.
    ///
    /// ```
    /// use deepagents::DeepAgent;
    /// let explanation = DeepAgent::builder().explain()?;
    /// assert!(explanation.model == "none" && explanation.fixed_tokens > 0);
    /// # Ok::<(), deepagents::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`build`](Self::build), except for a missing model.
    pub fn explain(self) -> Result<Explanation, BuildError> {
        Ok(self.without_model().build()?.explain())
    }

    /// Returns access to the threads of the journal, as the built agent would have it. A model is not required.
    ///
    /// # Errors
    /// As for [`build`](Self::build), except for a missing model; also returns an error if there is no journal.
    pub fn threads(self) -> Result<ThreadAccess, BuildError> {
        self.without_model().build()?.threads().map_err(|error| refused(error.to_string()))
    }

    /// Uses a placeholder model that cannot be called if none was given.
    fn without_model(mut self) -> Self {
        self.model.get_or_insert_with(|| Arc::new(NoModel));
        self
    }

    /// Builds the agent.
    ///
    /// # Errors
    /// Returns an error if the model is missing, a planner has no todo list to fill, an option names an unknown file
    /// tool, rules would not bind the file tools, names clash, or a name given to [`without`](Self::without) is not in
    /// the stack. Also returns an error if calls need approval and there is no journal to store the questions, no tool
    /// of that name, or the middleware that asks is left out.
    pub fn build(self) -> Result<DeepAgent, BuildError> {
        let mut agent = self.assemble()?;
        agent.asked_later = self.asked_about_later(&agent)?.into();
        Ok(agent)
    }

    fn assemble(&self) -> Result<DeepAgent, BuildError> {
        let Some(model) = self.model.clone() else {
            return Err(refused(
                "no model: give the builder one with `.model(...)`, for example from a `Registry`, or `NoModel` if it is never run",
            ));
        };
        self.files.check()?;
        self.check_tools()?;
        let workspace = self.guarded_workspace();
        self.check_permissions(&workspace)?;
        let profile = self.profiles.of_agent(model.name(), self.profile.clone())?;
        self.check_planner(&profile)?;
        self.check_questions()?;

        let mut stack = Stack::default();
        self.push_standard(&mut stack, &profile, &workspace)?;
        let summarization = self.summarizer(&model, &workspace)?;
        stack.push(summarization.clone());
        stack.push(self.caching);
        stack.push(PatchToolCalls::default());
        self.push_last(&mut stack, &profile, workspace)?;
        let middlewares = self.finish_stack(stack, &profile)?;
        let agent = self.core_agent(model, &profile, middlewares)?;

        let mut withheld = profile.config.excluded_tools.clone();
        withheld.extend(self.skill_tools.iter().map(|tool| tool.spec().name));
        let name = summarization.name();
        let is_standard = !self.has_own(name) && !self.leaves_out(name, &profile);
        let summarization = is_standard.then_some(summarization);
        Ok(DeepAgent { agent, withheld: Arc::new(withheld), asked_later: Arc::default(), summarization })
    }

    /// Adds the middlewares that give the agent its tools.
    fn push_standard(
        &self,
        stack: &mut Stack,
        profile: &HarnessProfile,
        workspace: &Workspace,
    ) -> Result<(), BuildError> {
        stack.push(LoopDetection::new(self.loops.clone()));
        if self.preset == Preset::Standard {
            let todos = TodoList::new(self.todos.clone());
            stack.push(self.planner.iter().cloned().fold(todos, TodoList::planner));
        }
        if let Some(paths) = &self.memory {
            stack.push(Memory::on(self.definitions(), paths)?);
        }
        if let Some(sources) = &self.skills {
            let skills = Skills::on(self.definitions(), sources.iter().cloned())?;
            stack.push(self.skill_tools.iter().cloned().fold(skills, Skills::tool));
        } else if !self.skill_tools.is_empty() {
            return Err(refused("there are skill tools but no skills; name sources with `.skills(...)`"));
        }
        let mut files = self.files.clone();
        files.edit_tool = files.edit_tool.or(profile.config.edit_tool);
        stack.push(Filesystem::on(workspace.clone()).options(files).noting(self.permissions.clone()));
        let (registry, sub_agents) = match self.delegation(profile) {
            Ok(made) => made,
            Err(error) => return Err(self.own_fault().unwrap_or(error)),
        };
        if let Some(sub_agents) = sub_agents {
            stack.push(sub_agents);
        }
        if self.background {
            stack.push(BackgroundAgents::on(registry, self.limits.depth, self.background_limits.clone())?);
        }
        #[cfg(feature = "mcp")]
        if let Some(servers) = self.mcp.clone() {
            stack.push(servers);
        }
        Ok(())
    }

    fn summarizer(&self, model: &Arc<dyn ChatModel>, workspace: &Workspace) -> Result<Summarization, BuildError> {
        let mut options = self.summarization.clone();
        if let Some(hooks) = self.active_hooks() {
            options = options.before(move |cx, manual| hooks.before_compaction(cx, manual));
        }
        Summarization::on(workspace.clone(), model.clone(), options)
    }

    /// Returns the hooks, if there are any.
    fn active_hooks(&self) -> Option<HookRunner> {
        self.hooks.clone().filter(|hooks| !hooks.hooks().is_empty())
    }

    /// Adds the middlewares that come after the caller's, closest to models and tools.
    fn push_last(&self, stack: &mut Stack, profile: &HarnessProfile, workspace: Workspace) -> Result<(), BuildError> {
        let approvals = self.approvals.clone().over(permission_interrupts::approvals(&self.permissions)).asking();
        if !approvals.is_empty() {
            self.check_approvals(&approvals, profile)?;
            stack.push_last(HumanInTheLoop::new(approvals).files(workspace));
        }
        stack.push_last(UnsupportedContent::default());
        // After `HumanInTheLoop`: hooks that run after the model's answer run in reverse order.
        if let Some(hooks) = self.active_hooks() {
            stack.push_last(hooks);
        }
        // Closest of all, so that no other middleware sees what it redacts.
        if let Some(redaction) = self.redaction.clone() {
            stack.push_last(redaction);
        }
        Ok(())
    }

    /// Returns the middlewares in their order, those of the caller and the profile among them.
    fn finish_stack(&self, stack: Stack, profile: &HarnessProfile) -> Result<Middlewares, BuildError> {
        let taken = |name: &str| stack.has(name) || self.has_own(name) || self.without.iter().any(|w| w == name);
        let own = self.own.iter().chain(&self.shared).cloned().chain(profile.extras(taken)).collect();
        let mut middlewares = stack.finish(own, &self.without)?;
        // A profile for all agents of a model may exclude middlewares that only some of them have.
        profile.prune(&mut middlewares, |name| self.nesting.is_sub_agent() || STANDARD.contains(&name))?;
        super::order::check(&middlewares)?;
        Ok(middlewares)
    }

    /// Builds the agent from its middlewares, tools and prompts.
    fn core_agent(
        &self,
        model: Arc<dyn ChatModel>,
        profile: &HarnessProfile,
        middlewares: Middlewares,
    ) -> Result<Agent, BuildError> {
        let mut tools = self.tools.clone();
        profile.describe(&middlewares, &mut tools);
        let mut builder = Agent::builder(model).options(self.options.clone());
        builder = self.system_prompt.iter().cloned().fold(builder, |b, text| b.system_prompt(text));
        builder = self.system_blocks.iter().cloned().fold(builder, |b, block| b.system_block(block));
        let standard = include_str!("../prompts/base.md").trim_end();
        let base = (self.preset == Preset::Standard).then_some(standard);
        builder = profile.prompts(base).fold(builder, |b, text| b.system_prompt(text));
        builder = middlewares.into_iter().fold(builder, |b, m| b.middleware(m));
        builder = tools.into_iter().fold(builder, |b, t| b.tool(t));
        builder.build()
    }
}
