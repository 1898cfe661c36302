//! A single rule.

use std::collections::BTreeSet;
use std::fmt;

use deepagents_core::interrupt::ActionRequest;
use deepagents_fs::permissions::CommandRule;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// File tools whose calls are matched by path only, as their content differs from call to call.
const BY_PATH: [&str; 3] = ["write_file", "edit_file", "delete"];
/// The argument with the path.
const PATH: &str = "file_path";
/// The tool that runs commands, and its argument with the command.
const EXECUTE: &str = "execute";
const COMMAND: &str = "command";
/// An argument that a matching command may have in addition, as it grants nothing more: the timeout in seconds, which
/// the agent limits anyway.
const TIMEOUT: &str = "timeout";

/// A rule for calls of one tool that need no further approval. [`Display`](fmt::Display) describes what it covers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RememberedRule {
    /// The tool.
    pub tool: String,
    /// Arguments that a call must have, with exactly these values.
    pub args: Map<String, Value>,
    /// The command of a call as the shell parses it: the same program with the same arguments, however they are quoted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandRule>,
    /// Whether a call may have other arguments in addition.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_others: bool,
    /// The target of the call's path, if it leads through a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<String>,
    /// Whether it was approved without a sandbox for commands. A rule approved with a sandbox does not apply without
    /// one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfined: bool,
    /// Whether it was approved while commands could not write to the workspace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// The hosts that commands could reach when it was approved.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hosts: BTreeSet<String>,
    /// Whether commands could leave changes in toolchain caches when it was approved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_caches: bool,
}

/// The access that commands have. A rule does not apply to commands with more access than when it was approved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandReach {
    /// Commands run without a sandbox.
    pub unconfined: bool,
    /// Commands cannot write to the workspace.
    pub read_only: bool,
    /// Hosts that commands may contact.
    pub hosts: BTreeSet<String>,
    /// Changes that commands make to toolchain caches persist.
    pub shared_caches: bool,
}

impl RememberedRule {
    /// Creates the narrowest rule that covers a call. It matches the path for a file tool that changes a file, the
    /// program and arguments for a simple command, and otherwise all arguments.
    pub fn covering(question: &ActionRequest) -> Self {
        let mut args = question.args.as_object().cloned().unwrap_or_default();
        let (tool, leads_to) = (question.tool.clone(), question.leads_to.clone());
        if let Some(path) = args.get(PATH).filter(|path| path.is_string() && BY_PATH.contains(&tool.as_str())) {
            let args = Map::from_iter([(PATH.to_owned(), path.clone())]);
            return Self { tool, args, with_others: true, leads_to, ..Self::default() };
        }
        let command = simple_command(&tool, &args);
        if command.is_some() {
            args.retain(|name, _| name != COMMAND && name != TIMEOUT);
        }
        Self { tool, args, command, leads_to, ..Self::default() }
    }

    /// Limits the rule to commands with this access.
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

    /// Returns `true` if the rule is about commands, which mean something different depending on their access and
    /// directory.
    pub fn is_about_commands(&self) -> bool {
        self.tool == EXECUTE
    }

    /// Returns `true` if the rule applies to commands with this access: no more than when it was approved.
    pub fn holds_within(&self, reach: &CommandReach) -> bool {
        if !self.is_about_commands() || self.unconfined {
            return true;
        }
        !reach.unconfined
            && (reach.read_only || !self.read_only)
            && reach.hosts.is_subset(&self.hosts)
            && (self.shared_caches || !reach.shared_caches)
    }

    /// Returns `true` if the rule covers a call. A command must yield the same rule as the approved one, so anything
    /// that a rule cannot express is not covered: a list, a pipeline, a redirection, a computed word.
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

/// Returns what a rule can express about the command of a call.
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
