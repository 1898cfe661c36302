//! A command, and what came of it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::VPath;
use crate::sandbox::Level;

/// A command to run.
///
/// ```
/// use std::time::Duration;
/// use deepagents_fs::{VPath, shell::Command};
/// let command = Command::new("cargo test").timeout(Duration::from_secs(600)).cwd(VPath::parse("/crates/core")?);
/// # Ok::<(), deepagents_fs::PathError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    pub(crate) text: String,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cwd: VPath,
    pub(crate) env: BTreeMap<String, String>,
}

impl Command {
    /// A command as one would type it, run in the root of the workspace.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), timeout: None, cwd: VPath::root(), env: BTreeMap::new() }
    }

    /// How long it may run; without one the shell's own limit holds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The directory it runs in.
    #[must_use]
    pub fn cwd(mut self, directory: VPath) -> Self {
        self.cwd = directory;
        self
    }

    /// Sets an environment variable, over one of the shell's own.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// The command as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The directory it runs in.
    pub fn directory(&self) -> &VPath {
        &self.cwd
    }

    /// How long it may run, if it says so itself.
    pub fn limit(&self) -> Option<Duration> {
        self.timeout
    }

    /// The environment variables that it sets.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.env.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Values of variables are not shown, they may be secrets.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("text", &self.text)
            .field("timeout", &self.timeout)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys())
            .finish()
    }
}

/// A command that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutput {
    /// What it printed. Bytes that are not UTF-8 are replaced; where it printed more than is kept, the first and last
    /// parts are here with a line between them that tells how much is missing.
    pub output: String,
    /// How it ended.
    pub exit: Exit,
    /// Bytes of output that were dropped; 0 when `output` is whole.
    pub dropped: u64,
    /// How long it took.
    pub duration: Duration,
    /// How it was confined.
    pub level: Level,
    /// Hosts that it asked the [proxy](crate::sandbox::Network::AllowList) for and may not reach, with their ports, the
    /// first 20.
    pub refused: Vec<String>,
    /// What it made at [places](crate::sandbox::SandboxPolicy::protected_places) that it may not change, and what that is
    /// called now.
    pub moved: Vec<Moved>,
    /// What became of the [session](super::Shell::session) that it ran in.
    pub session: SessionChange,
}

/// Something that a command made at a protected place, and that steers nobody under its new name. Paths are below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moved {
    /// Where it was.
    pub from: String,
    /// Where it is now; none if it could not be moved.
    pub to: Option<String>,
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from.escape_debug();
        match &self.to {
            Some(to) => write!(f, "commands may not make {from}: it is called {} now", to.escape_debug()),
            None => write!(f, "commands may not make {from}, and it could not be moved: look at it before it is used"),
        }
    }
}

/// What became of the session that a command ran in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionChange {
    /// It began with this command: what commands before it had set is not there.
    pub began: bool,
    /// It ended with this command; the next one begins another.
    pub ended: bool,
    /// It ended because of what this command made: repositories and the like, by their paths below the root, which the shell
    /// could go on to change and the next one cannot.
    pub ended_for: Vec<String>,
    /// What was printed since the command before this one, by what that left running.
    pub earlier_output: String,
}

/// How the commands of a [session](super::Shell::session) begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// Commands that each session begins with. Where one fails there is no session, and an error.
    pub startup: Vec<String>,
}

impl CommandOutput {
    /// A command that ended, unconfined and in no time.
    pub fn new(output: impl Into<String>, exit: Exit) -> Self {
        Self {
            output: output.into(),
            exit,
            dropped: 0,
            duration: Duration::ZERO,
            level: Level::None,
            refused: Vec::new(),
            moved: Vec::new(),
            session: SessionChange::default(),
        }
    }

    /// Whether a part of the output is missing.
    pub fn truncated(&self) -> bool {
        self.dropped > 0
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal of this number.
    Signal(i32),
    /// It ran longer than it might and was killed with all that it had started.
    TimedOut {
        /// The limit.
        after: Duration,
    },
    /// It was cancelled and killed with all that it had started.
    Cancelled,
    /// It left [too little space](crate::sandbox::Limits::spare) on the disk and was killed with all that it had started.
    OutOfSpace,
}

impl Exit {
    /// Whether it ended by itself with code 0.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }

    /// The name of the signal that ended it, where it has one on every system.
    pub fn signal_name(self) -> Option<&'static str> {
        let Self::Signal(number) = self else { return None };
        Some(match number {
            1 => "SIGHUP",
            2 => "SIGINT",
            3 => "SIGQUIT",
            4 => "SIGILL",
            5 => "SIGTRAP",
            6 => "SIGABRT",
            8 => "SIGFPE",
            9 => "SIGKILL",
            11 => "SIGSEGV",
            13 => "SIGPIPE",
            14 => "SIGALRM",
            15 => "SIGTERM",
            24 => "SIGXCPU",
            25 => "SIGXFSZ",
            31 if cfg!(target_os = "linux") => "SIGSYS",
            _ => return None,
        })
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => match self.signal_name() {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {number}"),
            },
            Self::TimedOut { after } => write!(f, "timed out after {} s", after.as_secs_f64()),
            Self::Cancelled => f.write_str("cancelled"),
            Self::OutOfSpace => f.write_str("stopped, since it left too little space on the disk"),
        }
    }
}
