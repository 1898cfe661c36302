//! What a session asks a person about: its mode, and what was allowed for all of it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// How much a session does by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// A person is asked before files are changed and commands are run.
    #[default]
    Ask,
    /// Files are changed, and commands run in the sandbox, without asking; a person is asked about the rest.
    Auto,
    /// Nothing is changed: the agent looks around and says what it would do.
    Plan,
}

impl Mode {
    /// All of them, in the order in which an editor shows them.
    pub const ALL: [Self; 3] = [Self::Ask, Self::Auto, Self::Plan];

    /// The id in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Auto => "auto",
            Self::Plan => "plan",
        }
    }

    /// The mode with this id.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == id)
    }

    /// The name for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Ask => "Ask",
            Self::Auto => "Auto (sandboxed)",
            Self::Plan => "Plan",
        }
    }

    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Ask => "Asks before files are changed and commands are run",
            Self::Auto => {
                "Changes files without asking; commands run in the agent's own sandbox, not in the editor's terminal"
            }
            Self::Plan => "Changes nothing: looks around and says what it would do",
        }
    }
}

/// The rule by which a session asks.
pub(crate) const ASKED: &str = "the session's mode asks about what changes something";

/// What is done about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicyDecision {
    Allow,
    Ask,
    /// It is not made.
    Refuse,
}

/// What a person allows for the rest of a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// Writing and editing files.
    Edits,
    /// Commands that begin with these words, and hold nothing that a shell gives a meaning to.
    Commands(String),
    /// This command, to the letter.
    Command(String),
    /// All calls of a tool.
    Tool(String),
}

/// Programs whose second word says what they do.
const WITH_SUBCOMMANDS: [&str; 14] =
    ["bun", "cargo", "deno", "docker", "dotnet", "git", "go", "just", "kubectl", "make", "npm", "pip", "pnpm", "yarn"];
/// Programs that run what follows, so that a rule for all their calls would allow anything; and some that do harm.
const NEVER_ALL: [&str; 22] = [
    "awk", "bash", "chmod", "chown", "curl", "dash", "dd", "env", "eval", "find", "node", "perl", "python", "python3",
    "rm", "ruby", "sed", "sh", "sudo", "wget", "xargs", "zsh",
];

impl Rule {
    /// The rule that would allow a call and its like.
    pub(crate) fn for_call(tool: &str, args: &Value) -> Self {
        match tool {
            "write_file" | "edit_file" => Self::Edits,
            "execute" => {
                let command = args.get("command").and_then(Value::as_str).unwrap_or_default();
                kind_of(command).map_or_else(|| Self::Command(command.to_owned()), Self::Commands)
            }
            other => Self::Tool(other.to_owned()),
        }
    }

    /// What it allows, in words that follow "Always allow".
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Edits => "changes of files in this session".to_owned(),
            Self::Commands(words) => format!("`{words} …` in this session"),
            Self::Command(_) => "this very command in this session".to_owned(),
            Self::Tool(name) => format!("{name} in this session"),
        }
    }
}

/// The words that say what kind of command it is, if it is one that a shell passes on as it is written.
fn kind_of(command: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || " -_./,:=@+%".contains(c);
    if !command.chars().all(plain) {
        return None;
    }
    let mut words = command.split_whitespace();
    let program = words.next()?;
    // A variable before the program changes what it does; a path may lead to anything.
    if NEVER_ALL.contains(&program) || program.contains(['=', '/']) {
        return None;
    }
    if !WITH_SUBCOMMANDS.contains(&program) {
        return Some(program.to_owned());
    }
    let second = words.next().filter(|word| !word.starts_with('-'))?;
    Some(format!("{program} {second}"))
}

/// What a session asks about.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    mode: Mode,
    always: BTreeSet<Rule>,
    /// Whether commands of ours run in a sandbox.
    sandboxed: bool,
}

impl Policy {
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn mode(&self) -> Mode {
        self.with(|inner| inner.mode)
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.with(|inner| inner.mode = mode);
    }

    /// Notes whether commands of ours run in a sandbox.
    pub(crate) fn set_sandboxed(&self, sandboxed: bool) {
        self.with(|inner| inner.sandboxed = sandboxed);
    }

    pub(crate) fn allow_always(&self, rule: Rule) {
        self.with(|inner| inner.always.insert(rule));
    }

    /// Why a call is allowed, in words.
    pub(crate) fn reason(&self, tool: &str, args: &Value) -> String {
        let rule = Rule::for_call(tool, args);
        self.with(|inner| match inner.mode {
            Mode::Ask if inner.always.contains(&rule) => format!("always allowed: {}", rule.words()),
            mode => format!("the mode {}", mode.as_str()),
        })
    }

    /// What is done about a call of a tool that changes something.
    pub(crate) fn decide(&self, tool: &str, args: &Value) -> PolicyDecision {
        self.with(|inner| match inner.mode {
            Mode::Plan => PolicyDecision::Refuse,
            Mode::Auto if matches!(tool, "write_file" | "edit_file" | "delete") => PolicyDecision::Allow,
            Mode::Auto if tool == "execute" && inner.sandboxed => PolicyDecision::Allow,
            Mode::Ask | Mode::Auto if inner.always.contains(&Rule::for_call(tool, args)) => PolicyDecision::Allow,
            Mode::Ask | Mode::Auto => PolicyDecision::Ask,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn command(text: &str) -> Rule {
        Rule::for_call("execute", &json!({"command": text}))
    }

    #[test]
    fn a_rule_for_commands_is_never_wider_than_it_reads() {
        assert_eq!(command("cargo test -p core"), Rule::Commands("cargo test".to_owned()));
        assert_eq!(command("ls -la src"), Rule::Commands("ls".to_owned()));
        for exact in ["ls; rm -rf x", "git -C / push", "rm x", "sh x.sh", "A=1 ls", "./run", "ls $(x)", "git", ""] {
            assert_eq!(command(exact), Rule::Command(exact.to_owned()), "{exact}");
        }
    }

    #[test]
    fn modes_decide_and_what_was_allowed_stays_so() {
        let policy = Policy::default();
        let args = json!({"command": "ls"});
        assert_eq!(policy.decide("execute", &args), PolicyDecision::Ask);
        policy.allow_always(command("ls -l"));
        assert_eq!(policy.decide("execute", &args), PolicyDecision::Allow);
        assert_eq!(policy.decide("execute", &json!({"command": "ls > x"})), PolicyDecision::Ask);
        policy.set_mode(Mode::Plan);
        assert_eq!(policy.decide("execute", &args), PolicyDecision::Refuse);
        policy.set_mode(Mode::Auto);
        assert_eq!(policy.decide("edit_file", &json!({})), PolicyDecision::Allow);
        assert_eq!(policy.decide("execute", &json!({"command": "make all"})), PolicyDecision::Ask);
        policy.set_sandboxed(true);
        assert_eq!(policy.decide("execute", &json!({"command": "make all"})), PolicyDecision::Allow);
        assert_eq!(policy.decide("pay", &json!({})), PolicyDecision::Ask);
    }
}
