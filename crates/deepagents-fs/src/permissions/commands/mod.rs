//! Rules for commands.
//!
//! A command is parsed with the shell's grammar and each simple command in it is judged separately: those in pipelines,
//! lists, subshells, functions and substitutions, and those that `env`, `sudo`, `xargs`, `timeout`, `find -exec` or `sh
//! -c` run.
//!
//! The rules guarantee that a denied command is not run if it is written in the text, however it is quoted, wrapped or
//! assembled; if that is unclear, a person is asked. They cannot see what a program or script such as `make` or
//! `python` does. That is what the [sandbox](crate::sandbox) is for.

mod decision;
mod directory;
mod filters;
mod mentions;
mod opened;
mod options;
mod pattern;
mod program;
mod runners;
mod script;
mod shells;
mod values;
mod word;
mod wrappers;
mod written;

use serde::{Deserialize, Serialize};

pub use self::decision::{CommandDecision, CommandReason};
use self::opened::{Opened, opened_file};
use self::pattern::{CommandPattern, Match, is_private};
use self::script::{Redirection, Script, Simple};
use self::word::{Word, quoted};
use super::{AccessMode, Operation, Permissions};

/// A rule for commands, such as `git push *` or `cargo *`.
///
/// A pattern is a program with its arguments, written as in a shell. `*` matches any text and `?` a single character; a
/// trailing `*` matches any further arguments, or none. Quoted text is literal. `NAME=value` in front matches variables
/// set for the command.
///
/// A rule that **allows** is taken literally: `cargo test` allows no further arguments, `git *` does not allow
/// `/tmp/git`, and a variable set in front must be in the rule, unless its name is in lower case. A rule that **denies
/// or asks** covers everything equivalent: `git push` covers `/usr/bin/git -C sub push --force`, and `rm -rf` covers
/// `rm --force -R`.
///
/// In JSON: `{"commands": ["git push *"], "mode": "deny"}`.
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
    /// Command patterns.
    pub commands: Vec<String>,
    /// Effect of the rule.
    #[serde(default)]
    pub mode: AccessMode,
}

impl CommandRule {
    /// Creates a rule.
    pub fn new<P: Into<String>>(mode: AccessMode, commands: impl IntoIterator<Item = P>) -> Self {
        Self { commands: commands.into_iter().map(Into::into).collect(), mode }
    }

    /// Returns a rule that allows exactly this command: the same program with the same arguments.
    ///
    /// Returns `None` if a single rule cannot express that: for pipelines, lists and other compound commands, for
    /// commands that run others, and if a word is computed, a variable is set, a file is opened or text is passed as
    /// input.
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
        // Check that the rule allows the command it was made from.
        let covers = || rule.compile().ok().is_some_and(|own| own.patterns.iter().all(|own| own.allows(simple)));
        (!words.is_empty() && covers()).then_some(rule)
    }

    /// Returns what a rule for all commands like this one would name: the program, with its subcommand if it has
    /// subcommands.
    ///
    /// Returns `None` for a list, a pipeline, a redirection or a computed word; for a program that runs another one or
    /// whatever it is told (`env`, `bash`, `python`, `vim`, `tar`); and if options precede a subcommand.
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
        // A command that may run part of its text is listed together with that part.
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

/// Returns the script's only command, if it is just a program with arguments.
fn one_plain(script: &Script) -> Option<&Simple> {
    let mut commands = script.commands.iter().filter(|simple| !simple.guessed);
    let (Some(simple), None) = (commands.next(), commands.next()) else { return None };
    let plain = !script.compound && script.doubts.is_empty() && simple.assignments.is_empty() && !simple.reads_text;
    let opens = simple.redirections.iter().any(|redirection| !is_stream(&redirection.to));
    (plain && !opens).then_some(simple)
}

/// A rule for commands is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandRuleError {
    /// One of its patterns is invalid.
    #[error("the pattern `{pattern}` of a rule about commands cannot be used: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The reason.
        reason: &'static str,
    },
    /// The rule has no commands, so it could never apply.
    #[error("a rule about commands names none; give it some or leave it out")]
    NoCommands,
}

/// Compiled rules for commands.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandRules {
    rules: Vec<Compiled>,
    /// Applies to commands that no rule covers.
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

    /// Returns whether all commands are allowed.
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
                consider(self.redirection(redirection, files));
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
        // A mention does not end the search: a later rule may be stricter.
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
                match pattern.takes_away(simple) {
                    Match::No if mentioned.is_none() && mentions::has(simple, pattern) => {
                        let (pattern, command) = about();
                        mentioned = Some(decision(AccessMode::Ask, CommandReason::Mentioned { pattern, command }));
                    }
                    Match::No => {}
                    Match::Yes => {
                        let (pattern, command) = about();
                        return decision(rule.mode, CommandReason::Rule { pattern, command });
                    }
                    Match::Perhaps => {
                        let (pattern, command) = about();
                        return decision(AccessMode::Ask, CommandReason::Unclear { pattern, command });
                    }
                }
            }
        }
        // Only private variables, or opened files, which are judged separately.
        let idle = simple.words.is_empty() && simple.assignments.iter().all(|(name, _)| is_private(name));
        let rest = if idle || simple.transparent || simple.guessed {
            CommandDecision::allowed(None)
        } else {
            decision(self.otherwise, CommandReason::NoRule { command: simple.shown() })
        };
        mentioned.filter(|mentioned| severity(mentioned.mode) >= severity(rest.mode)).unwrap_or(rest)
    }

    /// Judges a file that the shell opens: by the rules for files if one matches, or asks if one may; otherwise, writing
    /// is subject to `otherwise`.
    fn redirection(&self, redirection: &Redirection, files: &Permissions) -> CommandDecision {
        let allowed = CommandDecision::allowed(None);
        if is_stream(&redirection.to) {
            return allowed;
        }
        let operation = if redirection.writes { Operation::Write } else { Operation::Read };
        let opens = CommandReason::Opens { file: redirection.to.shown() };
        let opened = CommandDecision { mode: self.otherwise, reason: opens };
        let otherwise = if redirection.writes { opened } else { allowed };
        match opened_file(redirection, operation, files) {
            Opened::Free => otherwise,
            Opened::Decided { mode, pattern, path } => {
                let reason = CommandReason::File { pattern: pattern.to_owned(), path };
                // The file is read-only for commands, whatever a person decides about this one.
                let mode = if mode == AccessMode::Ask { AccessMode::Deny } else { mode };
                CommandDecision { mode, reason }
            }
            // Without rules for commands, nobody is asked about one.
            Opened::Unclear(_) if otherwise.mode == AccessMode::Deny || self.is_empty() => otherwise,
            Opened::Unclear(pattern) => {
                let reason = CommandReason::UnclearFile { pattern: pattern.to_owned(), file: redirection.to.shown() };
                CommandDecision { mode: AccessMode::Ask, reason }
            }
        }
    }
}

fn severity(mode: AccessMode) -> u8 {
    match mode {
        AccessMode::Allow => 0,
        AccessMode::Ask => 1,
        AccessMode::Deny => 2,
    }
}

/// Returns whether it is a device rather than a file on disk.
fn is_stream(word: &Word) -> bool {
    matches!(word.known(), Some("/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr" | "/dev/zero" | "/dev/full"))
}
