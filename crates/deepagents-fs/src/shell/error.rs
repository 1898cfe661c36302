//! Errors of running commands.

use super::Exit;
use crate::VPath;
use crate::sandbox::SandboxReport;

/// A command could not be run. It had no effect, except with [`Lost`](Self::Lost).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// The command is empty.
    #[error("the command is empty; give a command to run")]
    Empty,
    /// The command is longer than the system allows.
    #[error("the command is {bytes} bytes long, the limit is {limit}; write it to a file and run that")]
    TooLong {
        /// Length of the command in bytes.
        bytes: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// The command, or the name or value of a variable, cannot be passed to a program.
    #[error("{what} contains {character}; leave it out")]
    Invalid {
        /// The invalid part.
        what: String,
        /// The character that it must not contain.
        character: &'static str,
    },
    /// A rule denies it, or requires a person's approval that cannot be asked for.
    #[error("the command is refused: {reason}{}", if *asks { "; a person would have to be asked, and there is nobody" } else { "" })]
    Denied {
        /// The reason.
        reason: String,
        /// Whether a person could allow it.
        asks: bool,
    },
    /// The timeout is 0.
    #[error("the timeout must be more than 0")]
    NoTime,
    /// The working directory is missing, not a directory, or outside the workspace.
    #[error("cannot run in {cwd}: {reason}")]
    Directory {
        /// The directory.
        cwd: VPath,
        /// The reason.
        reason: String,
    },
    /// This machine or this program cannot provide the requested sandbox.
    #[error("commands must run in a sandbox, but there is none: {0}; to run without one, choose Unconfined")]
    NoSandbox(SandboxReport),
    /// The sandbox could not be set up for this command.
    #[error("the sandbox could not be set up ({step}): {reason}")]
    Setup {
        /// The step that failed.
        step: String,
        /// The reason.
        reason: String,
    },
    /// A startup command of a session failed.
    #[error("no shell session: the start-up command `{command}` failed ({exit}): {output}")]
    Startup {
        /// The command.
        command: String,
        /// How it ended.
        exit: Exit,
        /// Its output.
        output: String,
    },
    /// The command sets a directory or variables, which the commands of a session share.
    #[error("a command of a session has no directory and no variables of its own; say `cd` and `export` in it")]
    InSession,
    /// The process could not be started or supervised.
    #[error("the command could not be started: {0}")]
    Start(String),
    /// The command was started but its result is unknown; it is no longer running.
    #[error("the command was started but its end was not seen: {0}")]
    Lost(String),
}

impl ShellError {
    pub(crate) fn start(error: impl std::fmt::Display) -> Self {
        Self::Start(error.to_string())
    }
}
