//! Rules about commands.
//!
//! A command is taken apart by the grammar of the shell, and each simple command in it is judged by itself: those of
//! pipelines, lists, subshells, functions and substitutions, and those that `env`, `sudo`, `xargs`, `timeout`,
//! `find -exec` or `sh -c` run.
//!
//! What they promise: a command that a rule denies is not run as long as it is written in the command, however it is
//! quoted, wrapped or put together; where that cannot be told, a person is asked. What they cannot: see what a program or a script does
//! that is run, such as `make` or `python`. That is what the [sandbox](crate::sandbox) is for.

mod filters;
mod mentions;
mod options;
mod pattern;
mod program;
mod runners;
mod script;
mod shells;
mod values;
mod word;
mod wrappers;

use std::fmt;

use serde::{Deserialize, Serialize};

use self::pattern::{CommandPattern, Match, is_private};
use self::script::{Redirection, Script, Simple};
use self::word::{Word, quoted};
use super::{AccessMode, Operation, Permissions};
use crate::VPath;

/// A rule about commands, such as `git push *` or `cargo *`.
///
/// A pattern is a program and its arguments, as one would type them. In it `*` stands for any text and `?` for one
/// character; a `*` at the end for any further arguments, or none. What is quoted stands for itself. `NAME=value` in
/// front stands for variables that are set for the command.
///
/// A rule that **allows** is taken at its word: `cargo test` allows that and no further argument, `git *` does not allow
/// `/tmp/git`, and a variable set in front needs to be in the rule, unless its name is of small letters. A rule that
/// **denies or asks** is about all that comes to the same: `git push` is about `/usr/bin/git -C sub push --force` and
/// `rm -rf` about `rm --force -R`.
///
/// As JSON: `{"commands": ["git push *"], "mode": "deny"}`.
///
/// ```
/// use deepagents_fs::permissions::{AccessMode, CommandRule, Permissions};
/// let rules = Permissions::default().with_commands([
///     CommandRule::new(AccessMode::Deny, ["git push"]),
///     CommandRule::new(AccessMode::Allow, ["git *", "cargo *"]),
/// ], AccessMode::Ask)?;
/// assert_eq!(rules.decide_command("git status && cargo test").mode, AccessMode::Allow);
/// assert_eq!(rules.decide_command("git status; \\g\"i\"t -C . pu'sh'").mode, AccessMode::Deny);
/// assert_eq!(rules.decide_command("make").mode, AccessMode::Ask);
/// assert_eq!(rules.decide_command("$program status").mode, AccessMode::Ask);
/// # Ok::<(), deepagents_fs::permissions::CommandRuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRule {
    /// Patterns of commands.
    pub commands: Vec<String>,
    /// What it says about them.
    #[serde(default)]
    pub mode: AccessMode,
}

impl CommandRule {
    /// A rule about commands.
    pub fn new<P: Into<String>>(mode: AccessMode, commands: impl IntoIterator<Item = P>) -> Self {
        Self { commands: commands.into_iter().map(Into::into).collect(), mode }
    }

    /// The rule that allows this command and nothing else: the same program with the same arguments.
    ///
    /// None where one rule cannot say that: for pipelines, lists and other compound commands, for commands that run
    /// others, and where a word is computed, a variable is set, a file is opened or a text is given to read.
    ///
    /// ```
    /// use deepagents_fs::permissions::{AccessMode, CommandRule};
    /// let rule = CommandRule::narrow_for("cargo  test --package 'my app'");
    /// assert_eq!(rule, Some(CommandRule::new(AccessMode::Allow, ["cargo test --package 'my app'"])));
    /// assert_eq!(CommandRule::narrow_for("cargo test; rm -rf ~"), None);
    /// ```
    pub fn narrow_for(command: &str) -> Option<Self> {
        let script = Script::read(command);
        let simple = one_plain(&script)?;
        let words = simple.words.iter().map(|word| word.known().map(quoted)).collect::<Option<Vec<_>>>()?;
        let rule = Self::new(AccessMode::Allow, [words.join(" ")]);
        // What it says is what it was made from.
        let covers = || rule.compile().ok().is_some_and(|own| own.patterns.iter().all(|own| own.allows(simple)));
        (!words.is_empty() && covers()).then_some(rule)
    }

    /// What commands like this one have in common where a person is to allow them all: the program, with its sub-command where
    /// it has some. Nothing for a list, a pipeline, a redirection or a word that is computed, for a program that runs another
    /// one or whatever it is told (`env`, `bash`, `python`, `vim`, `tar`), and for options that stand before a sub-command.
    ///
    /// ```
    /// use deepagents_fs::permissions::CommandRule;
    /// assert_eq!(CommandRule::program_of("touch a.txt 'b c'").as_deref(), Some("touch"));
    /// assert_eq!(CommandRule::program_of("cargo test -p core").as_deref(), Some("cargo test"));
    /// for open in ["touch a; rm b", "setsid rm b", "git -c alias.x='!rm b' x", "python3 a.py"] {
    ///     assert_eq!(CommandRule::program_of(open), None);
    /// }
    /// ```
    pub fn program_of(command: &str) -> Option<String> {
        let script = Script::read(command);
        let simple = one_plain(&script)?;
        // Where it may run something that stands in it, that is listed as well.
        let is_alone = script.commands.len() == 1 && simple.words.iter().all(|word| word.known().is_some());
        is_alone.then(|| program::of(simple)).flatten()
    }

    fn compile(&self) -> Result<Compiled, CommandRuleError> {
        if self.commands.is_empty() {
            return Err(CommandRuleError::NoCommands);
        }
        let compile = |text: &String| {
            CommandPattern::parse(text).map_err(|reason| CommandRuleError::Pattern { pattern: text.clone(), reason })
        };
        Ok(Compiled { patterns: self.commands.iter().map(compile).collect::<Result<_, _>>()?, mode: self.mode })
    }
}

/// The one command of a script that is a program with its arguments and nothing more.
fn one_plain(script: &Script) -> Option<&Simple> {
    let mut commands = script.commands.iter().filter(|simple| !simple.guessed);
    let (Some(simple), None) = (commands.next(), commands.next()) else { return None };
    let plain = !script.compound && script.doubts.is_empty() && simple.assignments.is_empty() && !simple.reads_text;
    let opens = simple.redirections.iter().any(|redirection| !is_stream(&redirection.to));
    (plain && !opens).then_some(simple)
}

/// Why a rule about commands cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandRuleError {
    /// One of its patterns.
    #[error("the pattern `{pattern}` of a rule about commands cannot be used: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why.
        reason: &'static str,
    },
    /// It names no commands, so that it would say nothing.
    #[error("a rule about commands names none; give it some or leave it out")]
    NoCommands,
}

/// What the rules say about a command, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandDecision {
    /// What may be done.
    pub mode: AccessMode,
    /// What decided.
    pub reason: CommandReason,
}

impl CommandDecision {
    /// All of it is allowed, by this rule if by one.
    fn allowed(by: Option<&str>) -> Self {
        let by = by.map(str::to_owned).into_iter().collect();
        Self { mode: AccessMode::Allow, reason: CommandReason::Allowed { by } }
    }
}

/// What decided about a command. Shown, it is the part of a sentence behind "because".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandReason {
    /// A rule about commands.
    Rule {
        /// Its pattern.
        pattern: String,
        /// The simple command that it is about.
        command: String,
    },
    /// Whether a rule is about it depends on what is computed.
    Unclear {
        /// The pattern of that rule.
        pattern: String,
        /// The simple command.
        command: String,
    },
    /// The program of a rule stands in what a command is given, which may run it.
    Mentioned {
        /// The pattern of that rule.
        pattern: String,
        /// The simple command.
        command: String,
    },
    /// A rule about files, for a file that the shell opens.
    File {
        /// Its pattern.
        pattern: String,
        /// The file.
        path: VPath,
    },
    /// The shell opens a file that no rule is about.
    Opens {
        /// The file, as far as it is known.
        file: String,
    },
    /// It cannot be judged.
    NotUnderstood(String),
    /// No rule is about a simple command of it.
    NoRule {
        /// The simple command.
        command: String,
    },
    /// Rules allow all of it, or there are none.
    Allowed {
        /// The patterns of the rules that do.
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
            Self::Opens { file } => write!(f, "the shell writes to `{file}`, and no rule is about that"),
            Self::NotUnderstood(why) => f.write_str(why),
            Self::NoRule { command } => write!(f, "no rule is about `{command}`"),
            Self::Allowed { by } if by.is_empty() => f.write_str("no rule is against it"),
            Self::Allowed { by } => write!(f, "it is allowed by `{}`", by.join("`, `")),
        }
    }
}

/// Compiled rules about commands.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandRules {
    rules: Vec<Compiled>,
    /// What holds for commands that no rule is about.
    otherwise: AccessMode,
}

#[derive(Clone, Debug)]
struct Compiled {
    patterns: Vec<CommandPattern>,
    mode: AccessMode,
}

impl CommandRules {
    pub(super) fn new(
        rules: impl IntoIterator<Item = CommandRule>,
        otherwise: AccessMode,
    ) -> Result<Self, CommandRuleError> {
        let rules = rules.into_iter().map(|rule| rule.compile()).collect::<Result<_, _>>()?;
        Ok(Self { rules, otherwise })
    }

    /// Whether every command is allowed, whatever it is.
    pub(super) fn is_empty(&self) -> bool {
        self.otherwise == AccessMode::Allow && self.rules.iter().all(|rule| rule.mode == AccessMode::Allow)
    }

    pub(super) fn decide(&self, text: &str, files: &Permissions) -> CommandDecision {
        let mut worst = CommandDecision::allowed(None);
        if self.is_empty() && files.rules.is_empty() {
            return worst;
        }
        let script = Script::read(text);
        let takes_away = self.rules.iter().any(|rule| rule.mode != AccessMode::Allow);
        let mut consider = |found: CommandDecision| {
            if severity(found.mode) > severity(worst.mode) {
                worst = found;
            } else if let (CommandReason::Allowed { by: all }, CommandReason::Allowed { by }) =
                (&mut worst.reason, found.reason)
            {
                all.extend(by.into_iter().filter(|pattern| !all.contains(pattern)).collect::<Vec<_>>());
            }
        };
        for simple in &script.commands {
            consider(self.simple(simple));
            for redirection in &simple.redirections {
                consider(self.redirection(redirection, files, script.moves));
            }
        }
        let doubt = script.doubts.first().filter(|_| !self.is_empty());
        if let Some(doubt) = doubt.or(script.hides.as_ref().filter(|_| takes_away)) {
            let mode = if self.otherwise == AccessMode::Deny { AccessMode::Deny } else { AccessMode::Ask };
            consider(CommandDecision { mode, reason: CommandReason::NotUnderstood(doubt.to_string()) });
        }
        worst
    }

    fn simple(&self, simple: &Simple) -> CommandDecision {
        let decision = |mode, reason| CommandDecision { mode, reason };
        // A later rule may say more of it, but not less.
        let mut mentioned = None;
        for rule in &self.rules {
            for pattern in &rule.patterns {
                let about = || (pattern.as_str().to_owned(), simple.shown());
                if rule.mode == AccessMode::Allow {
                    if !simple.transparent && !simple.guessed && pattern.allows(simple) {
                        return mentioned.unwrap_or_else(|| CommandDecision::allowed(Some(pattern.as_str())));
                    }
                    continue;
                }
                match (pattern.takes_away(simple), about()) {
                    (Match::No, (pattern_text, command)) => {
                        if mentioned.is_none() && mentions::has(simple, pattern) {
                            let reason = CommandReason::Mentioned { pattern: pattern_text, command };
                            mentioned = Some(decision(AccessMode::Ask, reason));
                        }
                    }
                    (Match::Yes, (pattern, command)) => {
                        return decision(rule.mode, CommandReason::Rule { pattern, command });
                    }
                    (Match::Perhaps, (pattern, command)) => {
                        return decision(AccessMode::Ask, CommandReason::Unclear { pattern, command });
                    }
                }
            }
        }
        // Variables of the text itself, and files that are opened alone, which are judged as such.
        let idle = simple.words.is_empty() && simple.assignments.iter().all(|(name, _)| is_private(name));
        let rest = if idle || simple.transparent || simple.guessed {
            CommandDecision::allowed(None)
        } else {
            decision(self.otherwise, CommandReason::NoRule { command: simple.shown() })
        };
        mentioned.filter(|mentioned| severity(mentioned.mode) >= severity(rest.mode)).unwrap_or(rest)
    }

    /// A file that the shell opens: rules about files decide where they name it, for writing also what holds otherwise.
    fn redirection(&self, redirection: &Redirection, files: &Permissions, moved: bool) -> CommandDecision {
        let allowed = CommandDecision::allowed(None);
        if is_stream(&redirection.to) {
            return allowed;
        }
        let relative = redirection.to.known().filter(|text| !moved && !text.starts_with('/'));
        if let Some(path) = relative.and_then(|text| VPath::parse(text).ok()) {
            let operation = if redirection.writes { Operation::Write } else { Operation::Read };
            let decision = files.decide(operation, &path);
            if let Some(pattern) = decision.pattern {
                let reason = CommandReason::File { pattern: pattern.to_owned(), path };
                // The file is read-only for commands, whatever a person says to this one.
                let mode = if decision.mode == AccessMode::Ask { AccessMode::Deny } else { decision.mode };
                return CommandDecision { mode, reason };
            }
        }
        if !redirection.writes {
            return allowed;
        }
        CommandDecision { mode: self.otherwise, reason: CommandReason::Opens { file: redirection.to.shown() } }
    }
}

fn severity(mode: AccessMode) -> u8 {
    match mode {
        AccessMode::Allow => 0,
        AccessMode::Ask => 1,
        AccessMode::Deny => 2,
    }
}

/// Whether it is no file of a disk.
fn is_stream(word: &Word) -> bool {
    matches!(word.known(), Some("/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr" | "/dev/zero" | "/dev/full"))
}
