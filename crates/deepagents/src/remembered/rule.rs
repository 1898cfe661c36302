//! One rule.

use std::collections::BTreeSet;
use std::fmt;

use deepagents_core::interrupt::ActionRequest;
use deepagents_fs::permissions::CommandRule;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// File tools whose calls are covered by their path: what is written there differs from call to call.
const BY_PATH: [&str; 3] = ["write_file", "edit_file", "delete"];
/// The argument that holds the path.
const PATH: &str = "file_path";
/// The tool that runs commands, and the argument that holds one.
const EXECUTE: &str = "execute";
const COMMAND: &str = "command";
/// What a command may be given beside, which takes nothing more from anybody: seconds, of which the agent has a limit.
const TIMEOUT: &str = "timeout";

/// Calls of one tool that need not be asked about again. As text, [`Display`](fmt::Display) says what it covers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RememberedRule {
    /// The tool.
    pub tool: String,
    /// Arguments that a call has to have, exactly.
    pub args: Map<String, Value>,
    /// The command of a call, as the shell reads it: the same program with the same arguments, however they are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandRule>,
    /// Whether a call may have other arguments beside these.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_others: bool,
    /// Where the call's path leads, if that is not where it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<String>,
    /// Whether it was agreed to where commands have no sandbox. One that was agreed to for a sandbox says nothing about those.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfined: bool,
    /// Whether it was agreed to where commands write nothing of the workspace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// The hosts that commands could reach where it was agreed to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hosts: BTreeSet<String>,
    /// Whether what commands left in the caches of tool chains stayed there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_caches: bool,
}

/// What commands can reach. A rule that was agreed to says nothing about those that reach more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandReach {
    /// They have no sandbox.
    pub unconfined: bool,
    /// They write nothing of the workspace.
    pub read_only: bool,
    /// Hosts that they may talk to.
    pub hosts: BTreeSet<String>,
    /// What they leave in the caches of tool chains stays there.
    pub shared_caches: bool,
}

impl RememberedRule {
    /// The narrowest rule that covers a call: for a file tool that changes something its path, for a simple command its
    /// program and arguments, otherwise all arguments.
    pub fn covering(question: &ActionRequest) -> Self {
        let mut args = question.args.as_object().cloned().unwrap_or_default();
        let (tool, leads_to) = (question.tool.clone(), question.leads_to.clone());
        if let Some(path) = args.get(PATH).filter(|path| path.is_string() && BY_PATH.contains(&tool.as_str())) {
            let args = Map::from_iter([(PATH.to_owned(), path.clone())]);
            return Self { args, with_others: true, leads_to, ..Self::of(tool) };
        }
        let command = simple_command(&tool, &args);
        if command.is_some() {
            args.retain(|name, _| name != COMMAND && name != TIMEOUT);
        }
        Self { args, command, leads_to, ..Self::of(tool) }
    }

    fn of(tool: String) -> Self {
        Self {
            tool,
            args: Map::new(),
            command: None,
            with_others: false,
            leads_to: None,
            unconfined: false,
            read_only: false,
            hosts: BTreeSet::new(),
            shared_caches: false,
        }
    }

    /// The same, where commands reach this.
    #[must_use]
    pub fn within(mut self, reach: &CommandReach) -> Self {
        if self.is_about_commands() {
            self.unconfined = reach.unconfined;
            self.read_only = reach.read_only;
            self.hosts.clone_from(&reach.hosts);
            self.shared_caches = reach.shared_caches;
        }
        self
    }

    /// Whether it is about commands, whose meaning depends on what they reach and on where they run.
    pub fn is_about_commands(&self) -> bool {
        self.tool == EXECUTE
    }

    /// Whether it says anything where commands reach this: as much as where it was agreed to, or less.
    pub fn holds_within(&self, reach: &CommandReach) -> bool {
        if !self.is_about_commands() || self.unconfined {
            return true;
        }
        !reach.unconfined
            && (reach.read_only || !self.read_only)
            && reach.hosts.is_subset(&self.hosts)
            && (self.shared_caches || !reach.shared_caches)
    }

    /// Whether it covers a call. A command is covered by the rule that would be made of it, so nothing that a rule cannot
    /// say is: a list, a pipeline, a redirection, a word that is computed.
    pub fn covers(&self, question: &ActionRequest) -> bool {
        let Some(args) = question.args.as_object() else { return false };
        if self.command.is_some() && simple_command(&question.tool, args) != self.command {
            return false;
        }
        let is_named = |name: &str| self.command.is_none() || (name != COMMAND && name != TIMEOUT);
        let named = self.args.iter().all(|(name, value)| args.get(name) == Some(value));
        let no_others = self.with_others || args.keys().filter(|name| is_named(name)).count() == self.args.len();
        self.tool == question.tool && self.leads_to == question.leads_to && named && no_others
    }
}

/// What a rule can say about the command of a call.
fn simple_command(tool: &str, args: &Map<String, Value>) -> Option<CommandRule> {
    CommandRule::narrow_for(args.get(COMMAND).filter(|_| tool == EXECUTE)?.as_str()?)
}

impl fmt::Display for RememberedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tool)?;
        if let Some(command) = &self.command {
            write!(f, " `{}` and no other command, with any timeout", command.commands.join("` or `"))?;
        }
        for (at, (name, value)) in self.args.iter().enumerate() {
            let before = if at == 0 { " with exactly" } else { "," };
            write!(f, "{before} {name} {value}")?;
        }
        if let Some(path) = &self.leads_to {
            write!(f, ", which leads to {path}")?;
        }
        if self.unconfined {
            f.write_str(", without a sandbox")?;
        }
        if self.read_only {
            f.write_str(", where it changes nothing")?;
        }
        for (at, host) in self.hosts.iter().enumerate() {
            write!(f, "{} {host}", if at == 0 { ", with the network of" } else { "," })?;
        }
        if self.shared_caches {
            f.write_str(", with shared caches")?;
        }
        if self.with_others { f.write_str(", and any content") } else { Ok(()) }
    }
}
