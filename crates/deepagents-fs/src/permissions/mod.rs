//! Permission rules for files and commands.
//!
//! The first rule with a matching operation and path decides; if there is none, access is allowed. A leading dot is not
//! special. `/x/**` covers `/x` too. A rule that denies or asks also covers everything below what it matches; a rule
//! that allows covers only what it matches. [`PermissionedBackend`] enforces the rules on any backend.

mod commands;
#[cfg(unix)]
mod git;
mod guarded;
#[cfg(unix)]
mod inputs;
#[cfg(unix)]
mod links;
#[cfg(unix)]
mod programs;
mod protected;
#[cfg(unix)]
mod words;

use serde::{Deserialize, Serialize};

pub use commands::{CommandDecision, CommandReason, CommandRule, CommandRuleError};
#[cfg(unix)]
pub(crate) use git::{UserGit, repositories_above, run_from};
pub use guarded::{OnAsk, PermissionedBackend};
#[cfg(unix)]
pub use inputs::{inputs_of, loaded_by};
#[cfg(unix)]
pub(crate) use links::leads;
#[cfg(target_os = "linux")]
pub(crate) use programs::beginning;
#[cfg(unix)]
pub use programs::programs_of;
#[cfg(target_os = "linux")]
pub(crate) use protected::is_repository;
pub(crate) use protected::repository_entry;
pub use protected::{Place, ProtectedPlace, ProtectedPlaces};

use self::commands::CommandRules;
use crate::VPath;
use crate::search::{Pattern, PatternMatch};

/// Kind of operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Reading, listing and searching.
    Read,
    /// Writing, editing and deleting.
    Write,
}

impl Operation {
    /// Returns the name used in rules and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Effect of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessMode {
    /// Allows the operation.
    #[default]
    Allow,
    /// Denies the operation.
    Deny,
    /// Requires a person's approval each time.
    #[serde(alias = "interrupt")]
    Ask,
}

/// A permission rule for files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Operations the rule applies to.
    pub operations: Vec<Operation>,
    /// Globs of absolute paths.
    pub paths: Vec<String>,
    /// Effect of the rule.
    #[serde(default)]
    pub mode: AccessMode,
}

impl Rule {
    /// Creates a rule for reading and writing.
    pub fn new<P: Into<String>>(mode: AccessMode, paths: impl IntoIterator<Item = P>) -> Self {
        let operations = vec![Operation::Read, Operation::Write];
        Self { operations, paths: paths.into_iter().map(Into::into).collect(), mode }
    }

    /// Restricts the rule to some operations.
    #[must_use]
    pub fn only(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.operations = operations.into_iter().collect();
        self
    }
}

/// A rule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// One of its patterns is invalid.
    #[error("the pattern `{pattern}` of a permission rule cannot be used: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The reason.
        reason: String,
    },
    /// The rule has no paths, so it could never apply.
    #[error("a permission rule names no paths; give it some or leave it out")]
    NoPaths,
    /// The rule has no operations, so it could never apply.
    #[error("a permission rule about {} names no operations; give it `read`, `write` or both, or leave it out", paths.join(", "))]
    NoOperations {
        /// The patterns of its paths.
        paths: Vec<String>,
    },
}

/// What the rules say about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// The resulting access mode.
    pub mode: AccessMode,
    /// The pattern that decided; `None` if no rule did.
    pub pattern: Option<&'a str>,
}

impl Decision<'_> {
    const FREE: Self = Self { mode: AccessMode::Allow, pattern: None };
}

/// Compiled permission rules.
///
/// ```
/// use deepagents_fs::VPath;
/// use deepagents_fs::permissions::{AccessMode, Operation, Permissions, Rule};
/// let rules = Permissions::new([
///     Rule::new(AccessMode::Allow, ["/project/**"]),
///     Rule::new(AccessMode::Deny, ["/**"]),
/// ])?;
/// assert_eq!(rules.decide(Operation::Read, &VPath::parse("/project/.env")?).mode, AccessMode::Allow);
/// assert_eq!(rules.decide(Operation::Read, &VPath::parse("/etc/passwd")?).mode, AccessMode::Deny);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Permissions {
    rules: Vec<Compiled>,
    commands: CommandRules,
    /// Directories in which only patterns that name them apply.
    spared: Vec<VPath>,
}

#[derive(Clone, Debug)]
struct Compiled {
    operations: Vec<Operation>,
    patterns: Vec<Pattern>,
    mode: AccessMode,
}

impl Permissions {
    /// Compiles rules.
    ///
    /// # Errors
    /// Returns an error if a rule could never apply: it has no paths or no operations, or one of its patterns,
    /// including each brace alternative, cannot match any path. Also returns an error if a pattern does not begin with
    /// a slash, contains a `..` or `~` component, or is too large.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<Self, RuleError> {
        let rules = rules.into_iter().map(Compiled::new).collect::<Result<_, _>>()?;
        Ok(Self { rules, ..Self::default() })
    }

    /// Replaces the rules for commands. The first rule that applies to a simple command decides; `otherwise` applies to
    /// commands without such a rule. By default, there are no rules and all commands are allowed.
    ///
    /// # Errors
    /// Returns an error if a rule has no commands, or if a pattern is not a single simple command.
    pub fn with_commands(
        self,
        rules: impl IntoIterator<Item = CommandRule>,
        otherwise: AccessMode,
    ) -> Result<Self, CommandRuleError> {
        Ok(Self { commands: CommandRules::new(rules, otherwise)?, ..self })
    }

    /// Returns what the rules say about a shell command that runs in the root of the workspace.
    ///
    /// The command is denied if any part of it is, and allowed if all of it is. What cannot be judged requires
    /// approval, or is denied if `otherwise` denies: text that the grammar does not cover or that shells read
    /// differently, a program whose name is computed, `eval`.
    ///
    /// The rules for files apply to files that the shell opens (`> file`); writing them must be allowed by those rules
    /// or by `otherwise`. If a rule for files requires approval, the command is denied, as it cannot ask for a single
    /// file. A path counts from the directory that the command has changed to by then. If it is not known which file is
    /// meant (computed, absolute or above the workspace) and a rule that denies or asks may be about it, approval is
    /// required; without rules for commands, such files are allowed, and left to the sandbox.
    pub fn decide_command(&self, command: &str) -> CommandDecision {
        self.commands.decide(command, self)
    }

    /// Keeps the rules for files and takes the rules for commands from `other`.
    #[must_use]
    pub fn with_commands_of(self, other: &Self) -> Self {
        Self { commands: other.commands.clone(), ..self }
    }

    /// Exempts these directories from all patterns that do not name one of them or something in it: `/**` no longer
    /// applies there, `/kept/**` does.
    ///
    /// ```
    /// use deepagents_fs::VPath;
    /// use deepagents_fs::permissions::{AccessMode, Operation, Permissions, Rule};
    /// let kept = VPath::parse("/kept")?;
    /// let rules = Permissions::new([Rule::new(AccessMode::Deny, ["/**"])])?.sparing([kept.clone()]);
    /// assert_eq!(rules.decide(Operation::Write, &kept.join("log")?).mode, AccessMode::Allow);
    /// assert_eq!(rules.decide(Operation::Write, &VPath::parse("/src")?).mode, AccessMode::Deny);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn sparing(self, directories: impl IntoIterator<Item = VPath>) -> Self {
        Self { spared: directories.into_iter().collect(), ..self }
    }

    /// Returns whether a pattern applies to a path: in an exempt directory, it must name that directory.
    fn applies_to(&self, path: &VPath, pattern: &Pattern) -> bool {
        let mut spared = self.spared.iter().filter(|directory| path.starts_with(directory));
        spared.all(|directory| pattern.anchors().any(|anchor| anchor.starts_with(directory)))
    }

    /// Returns whether any commands may be refused or require approval.
    pub(crate) fn judges_commands(&self) -> bool {
        !self.commands.is_empty() || self.rules.iter().any(|rule| rule.mode != AccessMode::Allow)
    }

    /// Returns whether a command may require a person's approval.
    pub fn asks_about_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.commands.is_empty()
    }

    /// Returns whether a rule requires a person's approval for an operation.
    pub fn asks_about(&self, operation: Operation) -> bool {
        self.rules.iter().any(|rule| rule.mode == AccessMode::Ask && rule.operations.contains(&operation))
    }

    /// Returns the rules for files as given.
    #[cfg(unix)]
    pub(crate) fn file_rules(&self) -> Vec<Rule> {
        let given = |rule: &Compiled| Rule {
            operations: rule.operations.clone(),
            paths: rule.patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect(),
            mode: rule.mode,
        };
        self.rules.iter().map(given).collect()
    }

    /// Returns whether a rule allows reading anything at or below a path.
    #[cfg(target_os = "linux")]
    pub(crate) fn may_allow_below(&self, path: &VPath) -> bool {
        let allows = |rule: &&Compiled| rule.mode == AccessMode::Allow && rule.operations.contains(&Operation::Read);
        let mut patterns = self.rules.iter().filter(allows).flat_map(|rule| &rule.patterns);
        patterns.any(|pattern| pattern.match_of(path) != PatternMatch::Elsewhere)
    }

    /// Returns the paths at or below which everything lies that the rules concern.
    pub(crate) fn anchors(&self) -> impl Iterator<Item = VPath> {
        self.rules.iter().flat_map(|rule| &rule.patterns).flat_map(Pattern::anchors)
    }

    /// Returns what the rules say about a single path.
    pub fn decide(&self, operation: Operation, path: &VPath) -> Decision<'_> {
        for rule in self.rules.iter().filter(|rule| rule.operations.contains(&operation)) {
            for pattern in rule.patterns.iter().filter(|pattern| self.applies_to(path, pattern)) {
                let covered = match pattern.match_of(path) {
                    PatternMatch::Path => true,
                    PatternMatch::Above => rule.mode != AccessMode::Allow,
                    PatternMatch::Below | PatternMatch::Elsewhere => false,
                };
                if covered {
                    return Decision { mode: rule.mode, pattern: Some(pattern.as_str()) };
                }
            }
        }
        Decision::FREE
    }

    /// Returns what the rules say about an operation on a path and everything below it.
    ///
    /// Unreadable files are left out of listings and searches, so reading is denied only if the path itself is. Writing
    /// (deleting a tree) is denied if a rule that denies may cover anything below, whatever other rules say. Otherwise,
    /// approval is required if a rule that asks may cover anything below.
    pub fn decide_tree(&self, operation: Operation, path: &VPath) -> Decision<'_> {
        let own = self.decide(operation, path);
        if own.mode == AccessMode::Deny {
            return own;
        }
        let overlapping = |mode: AccessMode| {
            let rules = self.rules.iter().filter(|rule| rule.mode == mode && rule.operations.contains(&operation));
            let mut patterns = rules.flat_map(|rule| &rule.patterns).filter(|pattern| self.applies_to(path, pattern));
            let pattern = patterns.find(|pattern| pattern.match_of(path) != PatternMatch::Elsewhere)?;
            Some(Decision { mode, pattern: Some(pattern.as_str()) })
        };
        let denied = if operation == Operation::Write { overlapping(AccessMode::Deny) } else { None };
        denied.or_else(|| overlapping(AccessMode::Ask)).unwrap_or(own)
    }
}

impl Compiled {
    fn new(rule: Rule) -> Result<Self, RuleError> {
        if rule.paths.is_empty() {
            return Err(RuleError::NoPaths);
        }
        if rule.operations.is_empty() {
            return Err(RuleError::NoOperations { paths: rule.paths });
        }
        let compile = |pattern: String| {
            let refused = |reason: String| RuleError::Pattern { pattern: pattern.clone(), reason };
            if !pattern.starts_with('/') {
                return Err(refused("it must begin with a slash".to_owned()));
            }
            Pattern::rule(&pattern).map_err(|error| refused(error.to_string()))
        };
        let patterns = rule.paths.into_iter().map(compile).collect::<Result<_, _>>()?;
        Ok(Self { operations: rule.operations, patterns, mode: rule.mode })
    }
}
