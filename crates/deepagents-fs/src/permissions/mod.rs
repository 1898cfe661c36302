//! Rules about which files may be read and written.
//!
//! The first rule that names the operation and covers the path decides; where none does, the path is allowed. Names
//! that begin with a dot are matched like others. `/x/**` covers `/x` too. A rule that denies or asks covers all that
//! lies below what it matches; one that allows covers what it matches alone. [`PermissionedBackend`] enforces the rules around any
//! backend.

mod commands;
#[cfg(unix)]
mod git;
mod guarded;
#[cfg(unix)]
mod links;
#[cfg(unix)]
mod programs;
mod protected;

use serde::{Deserialize, Serialize};

pub use commands::{CommandDecision, CommandReason, CommandRule, CommandRuleError};
#[cfg(unix)]
pub(crate) use git::{UserGit, run_from};
pub use guarded::{OnAsk, PermissionedBackend};
#[cfg(unix)]
pub(crate) use links::leads;
#[cfg(unix)]
pub use programs::programs_of;
pub use protected::{Place, ProtectedPlace, ProtectedPlaces};
#[cfg(target_os = "linux")]
pub(crate) use protected::{REPOSITORY, is_repository};

use self::commands::CommandRules;
use crate::VPath;
use crate::search::{Pattern, PatternMatch};

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Reading, listing and searching.
    Read,
    /// Writing, editing and deleting.
    Write,
}

impl Operation {
    /// Its name in rules and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// What a rule says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessMode {
    /// It may be done.
    #[default]
    Allow,
    /// It may not be done.
    Deny,
    /// A person is asked each time.
    #[serde(alias = "interrupt")]
    Ask,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The operations it is about.
    pub operations: Vec<Operation>,
    /// Globs of absolute paths.
    pub paths: Vec<String>,
    /// What it says about them.
    #[serde(default)]
    pub mode: AccessMode,
}

impl Rule {
    /// A rule about reading and writing.
    pub fn new<P: Into<String>>(mode: AccessMode, paths: impl IntoIterator<Item = P>) -> Self {
        let operations = vec![Operation::Read, Operation::Write];
        Self { operations, paths: paths.into_iter().map(Into::into).collect(), mode }
    }

    /// The same rule about some operations only.
    #[must_use]
    pub fn only(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.operations = operations.into_iter().collect();
        self
    }
}

/// Why a rule cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// One of its patterns.
    #[error("the pattern `{pattern}` of a permission rule cannot be used: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why.
        reason: String,
    },
    /// It names no paths, so that it would say nothing.
    #[error("a permission rule names no paths; give it some or leave it out")]
    NoPaths,
    /// It names no operations, so that it would say nothing.
    #[error("a permission rule about {} names no operations; give it `read`, `write` or both, or leave it out", paths.join(", "))]
    NoOperations {
        /// The patterns of its paths.
        paths: Vec<String>,
    },
}

/// What the rules say about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// What may be done.
    pub mode: AccessMode,
    /// The pattern that decided; none if no rule did.
    pub pattern: Option<&'a str>,
}

impl Decision<'_> {
    const FREE: Self = Self { mode: AccessMode::Allow, pattern: None };
}

/// Compiled rules.
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
    /// Directories in which only the patterns that name them hold.
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
    /// When a rule could say nothing: it has no paths or no operations, or a pattern that no path can match, which
    /// includes those in braces one by one. When a pattern does not begin with a slash, has a `..` component, or is too
    /// large.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<Self, RuleError> {
        let rules = rules.into_iter().map(Compiled::new).collect::<Result<_, _>>()?;
        Ok(Self { rules, ..Self::default() })
    }

    /// The same rules, and these about commands, in the place of those there were: the first that is about a simple
    /// command decides. What holds for those that none is about is `otherwise`; without rules about commands they are
    /// allowed.
    ///
    /// # Errors
    /// When a rule could say nothing: it names no commands, or a pattern is not one simple command.
    pub fn with_commands(
        self,
        rules: impl IntoIterator<Item = CommandRule>,
        otherwise: AccessMode,
    ) -> Result<Self, CommandRuleError> {
        Ok(Self { commands: CommandRules::new(rules, otherwise)?, ..self })
    }

    /// What the rules say about a command for a shell, run in the root of the workspace.
    ///
    /// It is denied when any part of it is, and allowed when all of it is. What cannot be judged asks: text that the
    /// grammar does not cover or that shells read differently, a program whose name is computed, `eval`. Files that
    /// the shell opens (`> file`) are judged by the rules about files, and written only where those or `otherwise`
    /// allow it; what these want a person to be asked about is denied, as a command cannot ask for one file.
    pub fn decide_command(&self, command: &str) -> CommandDecision {
        self.commands.decide(command, self)
    }

    /// The same rules about files, and those of others about commands.
    #[must_use]
    pub fn with_commands_of(self, other: &Self) -> Self {
        Self { commands: other.commands.clone(), ..self }
    }

    /// The same rules, of which only the patterns that name one of these directories, or something in it, bind what is in
    /// it: `/**` does not, `/kept/**` does.
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

    /// Whether a pattern says anything about a path: in a directory that is spared it has to name that.
    fn speaks_of(&self, path: &VPath, pattern: &Pattern) -> bool {
        let mut spared = self.spared.iter().filter(|directory| path.starts_with(directory));
        spared.all(|directory| pattern.anchors().any(|anchor| anchor.starts_with(directory)))
    }

    /// Whether commands may be refused, or asked about.
    pub(crate) fn judges_commands(&self) -> bool {
        !self.commands.is_empty() || self.rules.iter().any(|rule| rule.mode != AccessMode::Allow)
    }

    /// Whether a person may have to be asked about commands.
    pub fn asks_about_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.commands.is_empty()
    }

    /// Whether a rule wants a person to be asked about an operation.
    pub fn asks_about(&self, operation: Operation) -> bool {
        self.rules.iter().any(|rule| rule.mode == AccessMode::Ask && rule.operations.contains(&operation))
    }

    /// The rules about files as they were given.
    #[cfg(unix)]
    pub(crate) fn file_rules(&self) -> Vec<Rule> {
        let given = |rule: &Compiled| Rule {
            operations: rule.operations.clone(),
            paths: rule.patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect(),
            mode: rule.mode,
        };
        self.rules.iter().map(given).collect()
    }

    /// Whether a rule allows reading something below a path.
    #[cfg(target_os = "linux")]
    pub(crate) fn may_allow_below(&self, path: &VPath) -> bool {
        let allows = |rule: &&Compiled| rule.mode == AccessMode::Allow && rule.operations.contains(&Operation::Read);
        let mut patterns = self.rules.iter().filter(allows).flat_map(|rule| &rule.patterns);
        patterns.any(|pattern| pattern.match_of(path) != PatternMatch::Elsewhere)
    }

    /// The paths at or below which all that the rules are about lies.
    pub(crate) fn anchors(&self) -> impl Iterator<Item = VPath> {
        self.rules.iter().flat_map(|rule| &rule.patterns).flat_map(Pattern::anchors)
    }

    /// What the rules say about one path.
    pub fn decide(&self, operation: Operation, path: &VPath) -> Decision<'_> {
        for rule in self.rules.iter().filter(|rule| rule.operations.contains(&operation)) {
            for pattern in rule.patterns.iter().filter(|pattern| self.speaks_of(path, pattern)) {
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

    /// What the rules say about an operation on all that is at and below a path.
    ///
    /// What may not be read is left out of listings and searches, so reading is denied only where the path itself is.
    /// Writing (deleting a tree) is denied when a rule that denies may cover anything below, whatever other rules say.
    /// Otherwise, a rule that asks and may cover anything below asks.
    pub fn decide_tree(&self, operation: Operation, path: &VPath) -> Decision<'_> {
        let own = self.decide(operation, path);
        if own.mode == AccessMode::Deny {
            return own;
        }
        let overlapping = |mode: AccessMode| {
            let rules = self.rules.iter().filter(|rule| rule.mode == mode && rule.operations.contains(&operation));
            let mut patterns = rules.flat_map(|rule| &rule.patterns).filter(|pattern| self.speaks_of(path, pattern));
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
