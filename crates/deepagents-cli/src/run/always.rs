//! What the user has always allowed: rules of this run, and stored rules of the thread and the directory.

use std::io;

use deepagents::ActionRequest;
use deepagents::remembered::{CommandReach, RememberedRule, RememberedRules, RuleScope};

use super::prompt::Lasting;

/// The rules that the user has always allowed.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// The file that stores rules, if there is one.
    file: Option<RememberedRules>,
    /// The scopes of stored rules that apply.
    thread: Option<RuleScope>,
    project: Option<RuleScope>,
    /// Rules of this process only.
    process_rules: Vec<RememberedRule>,
    /// How commands are run.
    pub(super) commands: Commands,
}

/// How commands are run, as far as it affects the meaning of a rule about commands.
#[derive(Debug, Default)]
pub(super) struct Commands {
    /// What they reach.
    pub(super) reach: CommandReach,
    /// Whether they share a shell, so that the meaning of a command depends on those before it.
    pub(super) share_shell: bool,
}

impl Commands {
    /// Returns the rule that would cover a call; `None` if no rule can tell what the call does.
    pub(super) fn rule(&self, question: &ActionRequest) -> Option<RememberedRule> {
        let rule = RememberedRule::covering(question).within(&self.reach);
        (!self.share_shell || !rule.is_about_commands()).then_some(rule)
    }
}

impl Rules {
    pub(super) fn new(
        file: Option<RememberedRules>,
        thread: Option<&str>,
        project: Option<RuleScope>,
        commands: Commands,
    ) -> Self {
        let thread = thread.map(|id| RuleScope::Thread(id.to_owned()));
        Self { file, thread, project, process_rules: Vec::new(), commands }
    }

    /// Finds a rule that covers a call.
    pub(super) fn find(&self, question: &ActionRequest) -> io::Result<Option<RememberedRule>> {
        if self.commands.rule(question).is_none() {
            return Ok(None);
        }
        if let Some(rule) = self.process_rules.iter().find(|rule| rule.covers(question)) {
            return Ok(Some(rule.clone()));
        }
        let scopes: Vec<RuleScope> = self.thread.iter().chain(&self.project).cloned().collect();
        match &self.file {
            Some(file) => file.find(&scopes, question, &self.commands.reach).map_err(io::Error::other),
            None => Ok(None),
        }
    }

    /// Stores a rule; if there is nowhere to store it, it holds until the program ends.
    pub(super) fn add(&mut self, rule: RememberedRule, lasting: Lasting) -> io::Result<()> {
        let scope = match lasting {
            Lasting::Session => &self.thread,
            Lasting::Project => &self.project,
        };
        match (&self.file, scope) {
            (Some(file), Some(scope)) => file.add(scope, &rule).map_err(io::Error::other),
            _ => {
                self.process_rules.push(rule);
                Ok(())
            }
        }
    }
}
