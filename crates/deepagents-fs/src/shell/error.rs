//! Why a command was not run.

use super::Exit;
use crate::VPath;
use crate::sandbox::SandboxReport;

/// A command could not be run. Nothing of it was done, except under [`Lost`](Self::Lost).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// There is no text.
    #[error("the command is empty; give a command to run")]
    Empty,
    /// The text is longer than the system takes.
    #[error("the command is {bytes} bytes long, the limit is {limit}; write it to a file and run that")]
    TooLong {
        /// Bytes of the text.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The text, or a variable's name or value, cannot be passed to a program.
    #[error("{what} contains {character}; leave it out")]
    Invalid {
        /// What it is about.
        what: String,
        /// What must not be in it.
        character: &'static str,
    },
    /// A rule denies it, or wants a person to be asked where there is none.
    #[error("the command is refused: {reason}{}", if *asks { "; a person would have to be asked, and there is nobody" } else { "" })]
    Denied {
        /// Why.
        reason: String,
        /// Whether a person could allow it.
        asks: bool,
    },
    /// The timeout is 0.
    #[error("the timeout must be more than 0")]
    NoTime,
    /// The working directory is missing, no directory, or outside the workspace.
    #[error("cannot run in {cwd}: {reason}")]
    Directory {
        /// The directory.
        cwd: VPath,
        /// Why.
        reason: String,
    },
    /// This machine, or this program, cannot give the sandbox that was asked for.
    #[error("commands must run in a sandbox, but there is none: {0}; to run without one, choose Unconfined")]
    NoSandbox(SandboxReport),
    /// The sandbox could not be set up for this command.
    #[error("the sandbox could not be set up ({step}): {reason}")]
    Setup {
        /// The step that failed.
        step: String,
        /// Why.
        reason: String,
    },
    /// A command that a session begins with failed.
    #[error("no shell session: the start-up command `{command}` failed ({exit}): {output}")]
    Startup {
        /// The command.
        command: String,
        /// How it ended.
        exit: Exit,
        /// What it printed.
        output: String,
    },
    /// Commands of a session share its directory and its variables.
    #[error("a command of a session has no directory and no variables of its own; say `cd` and `export` in it")]
    InSession,
    /// The process could not be started or watched.
    #[error("the command could not be started: {0}")]
    Start(String),
    /// The command was started and nobody can tell how it ended; it does not run any more.
    #[error("the command was started but its end was not seen: {0}")]
    Lost(String),
}

impl ShellError {
    pub(crate) fn start(error: impl std::fmt::Display) -> Self {
        Self::Start(error.to_string())
    }
}
