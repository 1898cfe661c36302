//! Runs commands in a workspace.
//!
//! A [`Shell`] runs a command to its end and returns its output and exit status. [`LocalShell`] runs it on this
//! machine, inside the [sandbox](crate::sandbox) or, if explicitly requested, without one. [`WithShell`] adds a shell
//! to any backend.
//!
//! Standard output and standard error share one pipe, so the output is in the order in which it was written and does
//! not tell them apart. No process may outlive the command that started it: background processes are killed when the
//! command ends.
//!
//! In the sandbox, the kernel enforces this even if this program is killed. Without it, a small watchdog process does,
//! and a process that leaves the command's process group (a daemon) escapes. A command has no terminal: it leads its
//! own process session if the system has `setsid`.

pub(crate) mod capture;
mod command;
mod error;
#[cfg(unix)]
mod local;
#[cfg(unix)]
mod own_session;
#[cfg(unix)]
pub(crate) mod session;
#[cfg(unix)]
pub(crate) mod supervise;
#[cfg(unix)]
mod watchdog;
mod with_shell;

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::permissions::Permissions;

pub use command::{Command, CommandOutput, Exit, Moved, SessionChange, SessionOptions};
pub use error::ShellError;
#[cfg(unix)]
pub use local::{Confinement, LocalShell};
pub use with_shell::WithShell;

/// Runs commands.
///
/// ```
/// use deepagents_fs::shell::{Command, CommandOutput, Exit, Shell, ShellError};
/// use futures_core::future::BoxFuture;
/// use tokio::sync::mpsc;
/// use tokio_util::sync::CancellationToken;
///
/// /// Answers every command with itself.
/// struct Echo;
///
/// impl Shell for Echo {
///     fn run(
///         &self, command: Command, _: CancellationToken, _: Option<mpsc::Sender<String>>,
///     ) -> BoxFuture<'_, Result<CommandOutput, ShellError>> {
///         Box::pin(async move { Ok(CommandOutput::new(command.text(), Exit::Code(0))) })
///     }
/// }
/// ```
pub trait Shell: Send + Sync + 'static {
    /// Returns this shell with commands bound by these file rules, whatever they do. `None` if the shell cannot enforce
    /// them, which is the default.
    fn under(&self, rules: &Permissions) -> Option<Arc<dyn Shell>> {
        let _ = rules;
        None
    }

    /// Returns a shell whose commands share one process, so that its directory, variables, functions and background
    /// processes persist between commands. `None` if that is not supported, which is the default. Commands run one
    /// after the other. The process starts with the first command and ends when the session is dropped.
    ///
    /// The session ends if a command exits the process (`exit`), times out or is cancelled, which the
    /// [output](CommandOutput::session) reports; the next command starts another one. It also ends if a command creates
    /// a repository in a sandbox, because protected places are determined when a session starts.
    fn session(&self, options: &SessionOptions) -> Option<Arc<dyn Shell>> {
        let _ = options;
        None
    }

    /// Runs a command to its end, its timeout or its cancellation. Dropping the future ends the command too.
    ///
    /// `progress` receives the output in pieces as it arrives. Pieces that find the channel full are skipped, so that a
    /// slow reader does not delay the command; the result always has the output.
    ///
    /// # Errors
    /// Returns an error if the command could not be run. A command that fails, is cancelled or times out is not an
    /// error.
    fn run(
        &self,
        command: Command,
        cancel: CancellationToken,
        progress: Option<mpsc::Sender<String>>,
    ) -> BoxFuture<'_, Result<CommandOutput, ShellError>>;
}

impl fmt::Debug for dyn Shell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shell")
    }
}
