//! Assembles an agent from the builder's options.

use std::collections::BTreeSet;
use std::sync::Arc;

use deepagents_core::agent::{Agent, BuildError, ThreadAccess};
use deepagents_core::middleware::Middleware;
use deepagents_core::model::NoModel;

use super::stack::Stack;
use super::{ASK_USER, DeepAgent, DeepAgentBuilder, FILESYSTEM, HUMAN, Preset, STANDARD, TODOS, UNBOUND};
use crate::approvals::InterruptPolicy;
use crate::explain::Explanation;
use crate::middleware::background::{BackgroundAgents, BackgroundLimits};
use crate::middleware::filesystem::NO_SESSION;
use crate::middleware::{
    Filesystem, HumanInTheLoop, LoopDetection, Memory, PatchToolCalls, Skills, Summarization, TodoList,
    UnsupportedContent,
};
use crate::permission_interrupts;
use crate::profile::HarnessProfile;
use crate::workspace::Workspace;

/// Name for the origin of a tool added with `.tool(...)`.
const CALLER: &str = "the caller";

fn refused(why: impl Into<String>) -> BuildError {
    BuildError::Option(why.into())
}

impl DeepAgentBuilder {
    /// Returns `true` if the caller has added a middleware of this name, for this agent alone or for all.
    pub(super) fn has_own(&self, name: &str) -> bool {
        self.own.iter().chain(&self.shared).any(|own| own.name() == name)
    }

    /// Returns `true` if nothing can keep a question until it is answered. Those of a sub-agent are kept by the agent
    /// above.
    pub(super) fn cannot_wait(&self) -> bool {
        self.options.journal.is_none() && !self.is_sub_agent
    }

    /// Returns `true` if the caller or the profile leaves out a standard middleware.
    fn leaves_out(&self, name: &str, profile: &HarnessProfile) -> bool {
        profile.config.excluded_middleware.contains(name) || self.without.iter().any(|without| without == name)
    }

    /// Rejects approvals that cannot work.
    fn check_approvals(&self, approvals: &InterruptPolicy, profile: &HarnessProfile) -> Result<(), BuildError> {
        if let Some(tool) = approvals.undecidable() {
            return Err(refused(format!(
                "no decision is allowed about calls of `{tool}`; allow at least one of approve, edit, reject and \
                 respond"
            )));
        }
        if self.leaves_out(HUMAN, profile) {
            let asked: Vec<&str> = approvals.tools.keys().map(String::as_str).collect();
            return Err(refused(format!(
                "without `{HUMAN}` nobody would be asked about calls of {}, although `interrupt_on` or permission \
                 rules require it; remove those instead",
                asked.join(", ")
            )));
        }
        if self.has_own(HUMAN) {
            return Err(refused(format!(
                "a middleware named `{HUMAN}` would replace the one that asks before calls are made; give it another \
                 name, or do not use `interrupt_on` and permission rules that ask"
            )));
        }
        if self.cannot_wait() {
            return Err(refused(
                "calls that are waiting for a decision are kept in a journal; give the builder one with \
                 `.journal(...)`",
            ));
        }
        Ok(())
    }

    /// Rejects questions to a person if there is no journal to keep them until they are answered.
    fn check_questions(&self) -> Result<(), BuildError> {
        let asks = self.has_own(ASK_USER) || self.shared.iter().any(|shared| shared.name() == HUMAN);
        if asks && self.cannot_wait() {
            return Err(refused(
                "questions to a person are kept in a journal until they are answered; give the builder one with \
                 `.journal(...)`, or leave out what asks",
            ));
        }
        Ok(())
    }

    /// Rejects a planner if the agent does not have the standard todo list.
    fn check_planner(&self, profile: &HarnessProfile) -> Result<(), BuildError> {
        // A sub-agent inherits the planner together with the list.
        if self.planner.is_none() || self.is_sub_agent {
            return Ok(());
        }
        if self.preset == Preset::Lean || self.leaves_out(TODOS, profile) || self.has_own(TODOS) {
            return Err(refused(format!(
                "a planner fills the list of the standard `{TODOS}`, which this agent does not have; leave out the \
                 planner, or give it to your own with `TodoList::planner`"
            )));
        }
        Ok(())
    }

    /// Returns the files of this agent under the rules that it cannot drop.
    fn bound_workspace(&self) -> Workspace {
        self.bounds.iter().cloned().fold(self.workspace.clone(), Workspace::guarded)
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

    /// Rejects rules that cannot be enforced.
    fn check_permissions(&self, guarded: &Workspace) -> Result<(), BuildError> {
        if !self.permissions.is_empty() && self.has_own(FILESYSTEM) {
            return Err(refused(UNBOUND));
        }
        // Without a sandbox, a command can access everything that the shell can, whatever the rules say.
        if self.bound_workspace().may_run_commands() && !guarded.may_run_commands() {
            return Err(refused(
                "rules about files cannot be enforced on the commands of this shell: give the backend a sandboxed \
                 shell, or remove the shell or the rules about files that commands can reach",
            ));
        }
        Ok(())
    }

    /// Rejects a tool of the caller that would shadow a tool of one of the caller's own middlewares. Only tools of
    /// standard middlewares may be replaced.
    fn check_tools(&self) -> Result<(), BuildError> {
        let own = self.own.iter().chain(&self.shared).filter(|middleware| !STANDARD.contains(&middleware.name()));
        let given: BTreeSet<String> = self.tools.iter().map(|tool| tool.spec().name).collect();
        for middleware in own {
            let hidden = middleware.tools().into_iter().map(|tool| tool.spec().name).find(|name| given.contains(name));
            if let Some(name) = hidden {
                return Err(BuildError::ToolTwice {
                    name,
                    first: format!("middleware `{}`", middleware.name()),
                    second: CALLER.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Returns an error of the agent's own options, if any. Sub-agents inherit the options, so the error must not be
    /// blamed on them.
    fn own_fault(&self) -> Option<BuildError> {
        let delegates = |name: &str| ["SubAgents", "BackgroundAgents"].contains(&name);
        let alone = Self {
            sub_agents: Vec::new(),
            agent_sources: Vec::new(),
            no_general_purpose: true,
            is_leaf: true,
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
        if self.files.shell_session.as_ref().is_some_and(|options| !workspace.may_keep_session(options)) {
            return Err(refused(NO_SESSION));
        }
        let profile = self.profiles.of_agent(model.name(), self.profile.clone())?;
        self.check_planner(&profile)?;
        self.check_questions()?;
        let approvals = self.approvals.clone().over(permission_interrupts::approvals(&self.permissions)).asking();
        let mut withheld = profile.config.excluded_tools.clone();
        withheld.extend(self.skill_tools.iter().map(|tool| tool.spec().name));

        let mut stack = Stack::default();
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
        let (registry, sub_agents) = match self.delegation(&profile) {
            Ok(made) => made,
            Err(error) => return Err(self.own_fault().unwrap_or(error)),
        };
        if let Some(sub_agents) = sub_agents {
            stack.push(sub_agents);
        }
        if self.background {
            stack.push(BackgroundAgents::on(registry, self.limits.depth, BackgroundLimits::default())?);
        }
        #[cfg(feature = "mcp")]
        if let Some(servers) = self.mcp.clone() {
            stack.push(servers);
        }
        let mut summarization = self.summarization.clone();
        let hooks = self.hooks.clone().filter(|hooks| !hooks.hooks().is_empty());
        if let Some(hooks) = hooks.clone() {
            summarization = summarization.before(move |cx, manual| hooks.before_compaction(cx, manual));
        }
        let summarization = Summarization::on(workspace, model.clone(), summarization)?;
        stack.push(summarization.clone());
        let is_standard = !self.has_own(summarization.name()) && !self.leaves_out(summarization.name(), &profile);
        stack.push(self.caching);
        stack.push(PatchToolCalls::default());
        if !approvals.is_empty() {
            self.check_approvals(&approvals, &profile)?;
            stack.push_last(HumanInTheLoop::new(approvals).files(self.guarded_workspace()));
        }
        stack.push_last(UnsupportedContent::default());
        // After `HumanInTheLoop`: hooks that run after the model's answer run in reverse order.
        if let Some(hooks) = hooks {
            stack.push_last(hooks);
        }
        // Closest to models and tools, so that no other middleware sees what it redacts.
        if let Some(redaction) = self.redaction.clone() {
            stack.push_last(redaction);
        }
        let taken = |name: &str| stack.has(name) || self.has_own(name) || self.without.iter().any(|w| w == name);
        let own = self.own.iter().chain(&self.shared).cloned().chain(profile.extras(taken)).collect();
        let mut middlewares = stack.finish(own, &self.without)?;
        // A profile for all agents of a model may exclude middlewares that only some of them have.
        profile.prune(&mut middlewares, |name| self.is_sub_agent || STANDARD.contains(&name))?;
        super::order::check(&middlewares)?;
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
        let summarization = is_standard.then_some(summarization);
        let agent = builder.build()?;
        Ok(DeepAgent { agent, withheld: Arc::new(withheld), asked_later: Arc::default(), summarization })
    }
}
