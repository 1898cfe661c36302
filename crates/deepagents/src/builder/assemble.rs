//! From options to an agent.

use std::collections::BTreeSet;
use std::sync::Arc;

use deepagents_core::agent::{Agent, BuildError};

use super::stack::Stack;
use super::{DeepAgent, DeepAgentBuilder, FILESYSTEM, HUMAN, Preset, STANDARD, TODOS, UNBOUND};
use crate::approvals::Approvals;
use crate::middleware::background::{BackgroundAgents, BackgroundLimits};
use crate::middleware::{
    Filesystem, HumanInTheLoop, Memory, PatchToolCalls, Skills, Summarization, TodoList, UnsupportedContent,
};
use crate::permits;
use crate::profile::{Applied, ProfileConfig};

impl DeepAgentBuilder {
    /// Refuses approvals that could not be had.
    fn check_approvals(&self, approvals: &Approvals, profile: &Applied) -> Result<(), BuildError> {
        if let Some(tool) = approvals.undecidable() {
            return Err(BuildError::Option(format!(
                "nothing may be decided about calls of `{tool}`; allow at least one of approve, edit, reject and respond"
            )));
        }
        let excluded = |config: &ProfileConfig| config.excluded_middleware.contains(HUMAN);
        if self.without.iter().any(|name| name == HUMAN) || excluded(&profile.profile.config) {
            let asked: Vec<&str> = approvals.tools.keys().map(String::as_str).collect();
            return Err(BuildError::Option(format!(
                "without `{HUMAN}` nobody would be asked about calls of {}, which `interrupt_on` or permission rules \
                 want asked about; take these out instead",
                asked.join(", ")
            )));
        }
        if self.own.iter().any(|m| m.name() == HUMAN) {
            return Err(BuildError::Option(format!(
                "a middleware of the name `{HUMAN}` would take the place of the one that asks before calls are made; \
                 give it another name, or ask about nothing else"
            )));
        }
        if self.options.journal.is_none() && !self.is_sub_agent {
            return Err(BuildError::Option(
                "calls that wait for a decision are kept in a journal; give the builder one with `.journal(...)`"
                    .into(),
            ));
        }
        Ok(())
    }

    /// Refuses a planner whose list nobody would keep.
    fn check_planner(&self, profile: &Applied) -> Result<(), BuildError> {
        // A sub-agent has the planner where it has the list.
        if self.planner.is_none() || self.is_sub_agent {
            return Ok(());
        }
        let excluded = profile.profile.config.excluded_middleware.contains(TODOS);
        let left_out = excluded || self.without.iter().any(|name| name == TODOS);
        if self.preset == Preset::Lean || left_out || self.own.iter().any(|m| m.name() == TODOS) {
            return Err(BuildError::Option(format!(
                "a planner lays out the list of the standard `{TODOS}`, which this agent does not have; leave the planner \
                 out, or give it to your own with `TodoList::planner`"
            )));
        }
        Ok(())
    }

    /// Builds the agent.
    ///
    /// # Errors
    /// When the model is missing, calls are asked about and there is no journal to keep the questions in or the part that
    /// asks is left out, a planner has no list to lay out, an option names a file tool that there is not, rules
    /// would not bind the file tools, names clash, or a name given to [`without`](Self::without) is none of the stack's.
    pub fn build(self) -> Result<DeepAgent, BuildError> {
        let options = self.clone();
        let model = self.model.ok_or_else(|| {
            BuildError::Option(
                "no model: give the builder one with `.model(...)`, for example from a `Registry`".into(),
            )
        })?;
        self.files.check()?;
        if !self.permissions.is_empty() && self.own.iter().any(|own| own.name() == FILESYSTEM) {
            return Err(BuildError::Option(UNBOUND.into()));
        }
        let workspace = match self.permissions.is_empty() {
            true => self.workspace,
            false => {
                let runs_commands = self.workspace.may_run_commands();
                let guarded = self.workspace.guarded(self.permissions.clone());
                // A command reaches whatever the shell reaches, whatever the rules say.
                if runs_commands && !guarded.may_run_commands() {
                    return Err(BuildError::Option(
                        "permission rules cannot bind commands: take the shell off the backend, or the rules about files \
                         that commands reach"
                            .into(),
                    ));
                }
                guarded
            }
        };
        let approvals = self.approvals.over(permits::approvals(&self.permissions)).asking();
        let profile = Applied::find(&self.profiles, model.name(), self.profile)?;
        let mut stack = Stack::default();
        options.check_planner(&profile)?;
        if self.preset == Preset::Standard {
            let todos = TodoList::new(self.todos);
            stack.push(self.planner.into_iter().fold(todos, TodoList::dyn_planner));
        }
        if let Some(paths) = self.memory {
            stack.push(Memory::on(workspace.clone(), paths)?);
        }
        let mut withheld: BTreeSet<String> = profile.profile.config.excluded_tools.clone();
        withheld.extend(self.skill_tools.iter().map(|tool| tool.spec().name));
        if let Some(sources) = self.skills {
            let skills = Skills::on(workspace.clone(), sources)?;
            stack.push(self.skill_tools.into_iter().fold(skills, Skills::dyn_tool));
        } else if !self.skill_tools.is_empty() {
            return Err(BuildError::Option(
                "there are skill tools but no skills; name sources with `.skills(...)`".into(),
            ));
        }
        stack.push(Filesystem::on(workspace.clone()).options(self.files));
        let team = options.delegation(&profile)?;
        if let Some(sub_agents) = team.sub_agents {
            stack.push(sub_agents);
        }
        if self.background {
            stack.push(BackgroundAgents::on(team.background, BackgroundLimits::default())?);
        }
        stack.push(Summarization::on(workspace, model.clone(), self.summarization)?);
        stack.push(self.caching);
        stack.push(PatchToolCalls::default());
        if !approvals.is_empty() {
            options.check_approvals(&approvals, &profile)?;
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

        let mut builder = Agent::builder(model).options(self.options);
        builder = self.system_prompt.into_iter().fold(builder, |b, text| b.system_prompt(text));
        let standard = include_str!("../prompts/base.md").trim_end();
        let base = (self.preset == Preset::Standard).then_some(standard);
        builder = profile.prompts(base).fold(builder, |b, text| b.system_prompt(text));
        builder = middlewares.into_iter().fold(builder, |b, m| b.dyn_middleware(m));
        builder = tools.into_iter().fold(builder, |b, t| b.dyn_tool(t));
        Ok(DeepAgent { agent: builder.build()?, withheld: Arc::new(withheld) })
    }
}
