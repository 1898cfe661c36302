//! A command and its result.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
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
    pub(crate) held: HeldValues,
}

/// Values that are dropped when a command has ended. They are no part of what the command is.
#[derive(Clone, Default)]
pub(crate) struct HeldValues(Vec<Arc<dyn Any + Send + Sync>>);

impl PartialEq for HeldValues {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for HeldValues {}

impl Command {
    /// Creates a command, written as in a terminal, that runs in the root of the workspace.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), timeout: None, cwd: VPath::root(), env: BTreeMap::new(), held: HeldValues::default() }
    }

    /// Sets the time limit; without one, the shell's own limit applies.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, directory: VPath) -> Self {
        self.cwd = directory;
        self
    }

    /// Sets an environment variable, overriding the shell's own.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Keeps a value until no process of the command is left, even if its caller stops waiting before; in a
    /// [session](super::Shell::session), until the session's process has ended. For this, a shell keeps the command or a
    /// clone of it until then, and drops it before it returns the result.
    #[must_use]
    pub fn while_running(mut self, value: Arc<dyn Any + Send + Sync>) -> Self {
        self.held.0.push(value);
        self
    }

    /// Returns the text of the command.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the working directory.
    pub fn directory(&self) -> &VPath {
        &self.cwd
    }

    /// Returns the command's own time limit, if it has one.
    pub fn limit(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns the environment variables that the command sets.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.env.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Omits the values of variables, which may be secrets.
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

/// Result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutput {
    /// The output, with invalid UTF-8 replaced. If the command printed more than is kept, this has the first and last
    /// parts, separated by a line with the number of omitted bytes.
    pub output: String,
    /// How the command ended.
    pub exit: Exit,
    /// Number of bytes of output dropped; 0 if `output` is complete.
    pub dropped: u64,
    /// Running time.
    pub duration: Duration,
    /// Confinement of the command.
    pub level: Level,
    /// Hosts, with ports, that the command requested from the [proxy](crate::sandbox::Network::AllowList) and was
    /// refused; the first 20.
    pub refused: Vec<String>,
    /// Files that the command created at [places](crate::sandbox::SandboxPolicy::protected_places) it may not change,
    /// with their new names.
    pub moved: Vec<Moved>,
    /// Effect on the [session](super::Shell::session) in which the command ran.
    pub session: SessionChange,
}

/// A file that a command created at a protected place, renamed so that it has no effect. Paths are relative to the
/// root.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moved {
    /// Original path.
    pub from: String,
    /// New path; `None` if it could not be moved.
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

/// Effect of a command on its session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionChange {
    /// The session started with this command: state set by earlier commands is lost.
    pub began: bool,
    /// The session ended with this command; the next one starts another session.
    pub ended: bool,
    /// The session ended because the command created these repositories or similar, given by their paths below the
    /// root. The running shell could go on to change them, whereas a new session protects them.
    pub ended_for: Vec<String>,
    /// Output since the previous command, by processes it left running.
    pub earlier_output: String,
}

/// Options of a [session](super::Shell::session).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// Commands that run at the start of each session. If one fails, the session does not start and an error is
    /// returned.
    pub startup: Vec<String>,
}

impl CommandOutput {
    /// Creates the result of an unconfined command with zero duration.
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

    /// Returns whether part of the output is missing.
    pub fn truncated(&self) -> bool {
        self.dropped > 0
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// Exited with this code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
    /// Exceeded its time limit and was killed with all its processes.
    TimedOut {
        /// The time limit.
        after: Duration,
    },
    /// Cancelled and killed with all its processes.
    Cancelled,
    /// Left [too little space](crate::sandbox::Limits::spare) on the disk and was killed with all its processes.
    OutOfSpace,
}

impl Exit {
    /// Returns whether the command exited with code 0.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }

    /// Returns the name of the signal that ended the command, if it has the same name on every system.
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
