//! What the agents of a scenario do, turn by turn.

use super::script::{Tag, report};

/// The agents of a scenario, the main agent first.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) agents: Vec<AgentPlan>,
    pub(crate) files: FilesIn,
    /// Whether conversations are compacted after a few messages.
    pub(crate) compacts: bool,
    /// Whether an external effect is a line in a file, and looking means reading it.
    pub(crate) in_files: bool,
}

/// An agent. Agents of the same kind differ only by their task.
#[derive(Clone, Debug)]
pub(crate) struct AgentPlan {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    /// The kind of agent that delegates to it, or `None` for the main agent.
    pub(crate) above: Option<&'static str>,
    pub(crate) turns: Vec<Vec<Operation>>,
}

/// A call in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// An external effect that must not be repeated.
    Send,
    /// An external effect that may be repeated under the same key.
    Put,
    /// A read without an effect.
    Look,
    /// An effect that a person approves first.
    Pay,
    /// An effect that a person rejects.
    Steal,
    /// Creates a file.
    Write { path: String, text: String },
    /// Replaces a part of a file.
    Edit { path: String, old: String, new: String },
    /// Reads a file, to see whether a change took effect.
    Read { path: String },
    /// Delegates to another agent.
    Delegate(&'static str),
    /// Starts a background agent.
    Start(&'static str),
}

/// Where files are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FilesIn {
    #[default]
    State,
    Disk,
    Store,
}

/// The kind of the main agent.
pub(crate) const MAIN: &str = "main";

impl Plan {
    /// Creates a plan for the main agent alone.
    pub(crate) fn new(turns: Vec<Vec<Operation>>) -> Self {
        let main = AgentPlan { name: MAIN, kind: MAIN, above: None, turns };
        Self { agents: vec![main], files: FilesIn::default(), compacts: false, in_files: false }
    }

    /// Adds an agent below one of a kind.
    pub(crate) fn agent(
        mut self,
        (name, kind, above): (&'static str, &'static str, &'static str),
        turns: Vec<Vec<Operation>>,
    ) -> Self {
        self.agents.push(AgentPlan { name, kind, above: Some(above), turns });
        self
    }

    /// Converts the plan to the file tools.
    pub(crate) fn in_files(mut self) -> Self {
        self.in_files = true;
        self
    }

    /// Returns the result of a completed call, if there is only one possible result.
    pub(crate) fn result(&self, operation: &Operation, tag: &Tag) -> Option<String> {
        match operation {
            Operation::Delegate(name) => Some(report(name)),
            operation if !self.in_files && operation.is_noted() => Some(format!("done {tag}")),
            _ => None,
        }
    }

    /// Whether a completed call leaves a note.
    pub(crate) fn is_noted(&self, operation: &Operation) -> bool {
        operation.is_noted() && !(self.in_files && *operation == Operation::Look)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&AgentPlan> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    /// Returns the distinct kinds below a kind.
    pub(crate) fn kinds_below(&self, above: &str) -> Vec<&'static str> {
        let mut kinds: Vec<&'static str> = Vec::new();
        for agent in self.agents.iter().filter(|agent| agent.above == Some(above)) {
            if !kinds.contains(&agent.kind) {
                kinds.push(agent.kind);
            }
        }
        kinds
    }

    /// Whether there are background agents.
    pub(crate) fn has_background(&self) -> bool {
        let mut operations = self.agents.iter().flat_map(|agent| agent.turns.iter().flatten());
        operations.any(|operation| matches!(operation, Operation::Start(_)))
    }

    /// Returns all paths that agents write.
    pub(crate) fn paths(&self) -> Vec<&str> {
        let operations = self.agents.iter().flat_map(|agent| agent.turns.iter().flatten());
        let mut paths: Vec<&str> = operations.filter_map(Operation::path).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }
}

impl Operation {
    pub(crate) fn write(path: &str, text: impl Into<String>) -> Self {
        Self::Write { path: path.to_owned(), text: text.into() }
    }

    pub(crate) fn edit(path: &str, old: impl Into<String>, new: impl Into<String>) -> Self {
        Self::Edit { path: path.to_owned(), old: old.into(), new: new.into() }
    }

    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Self::Write { path, .. } | Self::Edit { path, .. } | Self::Read { path } => Some(path),
            Self::Send | Self::Put | Self::Look | Self::Pay | Self::Steal | Self::Delegate(_) | Self::Start(_) => None,
        }
    }

    fn is_noted(&self) -> bool {
        matches!(self, Self::Send | Self::Put | Self::Look | Self::Pay | Self::Steal)
    }

    /// Whether a resumed run may repeat it.
    pub(crate) fn is_repeatable(&self) -> bool {
        matches!(self, Self::Put | Self::Look)
    }
}
