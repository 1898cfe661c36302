//! Decisions about commands, and their reasons.

use std::fmt;

use crate::VPath;
use crate::permissions::AccessMode;

/// What the rules say about a command, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandDecision {
    /// The resulting access mode.
    pub mode: AccessMode,
    /// What decided.
    pub reason: CommandReason,
}

impl CommandDecision {
    /// All of it is allowed, by this rule if there is one.
    pub(super) fn allowed(by: Option<&str>) -> Self {
        let by = by.map(str::to_owned).into_iter().collect();
        Self { mode: AccessMode::Allow, reason: CommandReason::Allowed { by } }
    }
}

/// What decided about a command. Displayed as a clause that follows "because".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandReason {
    /// A rule for commands.
    Rule {
        /// Pattern of the rule.
        pattern: String,
        /// The simple command it covers.
        command: String,
    },
    /// A rule may or may not cover the command, depending on something computed.
    Unclear {
        /// Pattern of the rule.
        pattern: String,
        /// The simple command.
        command: String,
    },
    /// A command that a rule covers is mentioned in the input of another command, which may run it.
    Mentioned {
        /// Pattern of the rule.
        pattern: String,
        /// The simple command.
        command: String,
    },
    /// A rule for files, about a file that the shell opens.
    File {
        /// Pattern of the rule.
        pattern: String,
        /// The file.
        path: VPath,
    },
    /// A rule for files may or may not cover a file that the shell opens.
    UnclearFile {
        /// Pattern of the rule.
        pattern: String,
        /// The file, as far as it is known.
        file: String,
    },
    /// The shell opens a file that no rule covers.
    Opens {
        /// The file, as far as it is known.
        file: String,
    },
    /// The command cannot be judged.
    NotUnderstood(String),
    /// No rule covers a simple command in it.
    NoRule {
        /// The simple command.
        command: String,
    },
    /// Rules allow all of it, or there are no rules against it.
    Allowed {
        /// Patterns of the allowing rules.
        by: Vec<String>,
    },
}

impl fmt::Display for CommandReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { pattern, command } => write!(f, "the rule `{pattern}` is about `{command}`"),
            Self::Unclear { pattern, command } => {
                write!(f, "the rule `{pattern}` may be about `{command}`, part of which is computed or ambiguous")
            }
            Self::Mentioned { pattern, command } => {
                write!(
                    f,
                    "what the rule `{pattern}` is about stands in what `{command}` is given, and may be run by it"
                )
            }
            Self::File { pattern, path } => write!(f, "the rule `{pattern}` is about {path}, which the shell opens"),
            Self::UnclearFile { pattern, file } => {
                write!(f, "the rule `{pattern}` may be about `{file}`, which the shell opens")
            }
            Self::Opens { file } => write!(f, "the shell writes to `{file}`, and no rule is about that"),
            Self::NotUnderstood(why) => f.write_str(why),
            Self::NoRule { command } => write!(f, "no rule is about `{command}`"),
            Self::Allowed { by } if by.is_empty() => f.write_str("no rule is against it"),
            Self::Allowed { by } => write!(f, "it is allowed by `{}`", by.join("`, `")),
        }
    }
}
