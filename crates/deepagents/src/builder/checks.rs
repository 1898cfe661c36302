//! Rejects options that cannot work together.

use std::collections::BTreeSet;

use deepagents_core::agent::BuildError;

use super::{ASK_USER, DeepAgentBuilder, FILESYSTEM, HUMAN, Preset, STANDARD, TODOS, UNBOUND};
use crate::approvals::InterruptPolicy;
use crate::middleware::filesystem::NO_SESSION;
use crate::profile::HarnessProfile;
use crate::workspace::Workspace;

/// Name for the origin of a tool added with `.tool(...)`.
const CALLER: &str = "the caller";

pub(super) fn refused(why: impl Into<String>) -> BuildError {
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
        self.options.journal.is_none() && !self.nesting.is_sub_agent()
    }

    /// Returns `true` if the caller or the profile leaves out a standard middleware.
    pub(super) fn leaves_out(&self, name: &str, profile: &HarnessProfile) -> bool {
        profile.config.excluded_middleware.contains(name) || self.without.iter().any(|without| without == name)
    }

    /// Rejects approvals that cannot work.
    pub(super) fn check_approvals(
        &self,
        approvals: &InterruptPolicy,
        profile: &HarnessProfile,
    ) -> Result<(), BuildError> {
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
    pub(super) fn check_questions(&self) -> Result<(), BuildError> {
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
    pub(super) fn check_planner(&self, profile: &HarnessProfile) -> Result<(), BuildError> {
        // A sub-agent inherits the planner together with the list.
        if self.planner.is_none() || self.nesting.is_sub_agent() {
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

    /// Rejects rules that cannot be enforced.
    pub(super) fn check_permissions(&self, guarded: &Workspace) -> Result<(), BuildError> {
        if !self.permissions.is_empty() && self.has_own(FILESYSTEM) {
            return Err(refused(UNBOUND));
        }
        if self.files.shell_session.as_ref().is_some_and(|options| !guarded.may_keep_session(options)) {
            return Err(refused(NO_SESSION));
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
    pub(super) fn check_tools(&self) -> Result<(), BuildError> {
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
}
