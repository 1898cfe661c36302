//! Running commands in a workspace.
//!
//! A [`Shell`] runs one command at a time to its end and tells what it printed and how it ended. [`LocalShell`] does so
//! on this machine, inside the [sandbox](crate::sandbox) or, where that is asked for by name, without one.
//! [`WithShell`] gives a shell to any backend.
//!
//! Output is standard output and standard error through one pipe, unmarked, in the order in which it was written.
//! Nothing that a command starts is meant to outlive it: a background process ends with the command. In the sandbox the
//! kernel sees to that, also when this program is killed; without one a small process does, and a process that leaves the
//! command's process group (a daemon) escapes. A command has no terminal: it leads a session of its own, where there is
//! `setsid`.

mod capture;
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
    /// The same shell for commands that these rules about files bind, whatever they do; none where that cannot be had,
    /// which is what most shells answer.
    fn under(&self, rules: &Permissions) -> Option<Arc<dyn Shell>> {
        let _ = rules;
        None
    }

    /// A shell whose commands share one process, so that the directory, variables, functions and what runs in the background
    /// stay from one to the next; none where that cannot be had, which is what most shells answer. Commands run one after the
    /// other. The process begins with the first command and ends when the session is dropped.
    ///
    /// A command that ends the process (`exit`), or that is stopped because it takes too long or is not wanted any more, ends
    /// the session, which its [output](CommandOutput::session) says; the next command begins another. So does one that makes a
    /// repository in a sandbox, because what is protected is looked for when a session begins.
    fn session(&self, options: &SessionOptions) -> Option<Arc<dyn Shell>> {
        let _ = options;
        None
    }

    /// Runs a command to its end, its timeout or its cancellation. Dropping the future ends the command too.
    ///
    /// `progress` gets the output as it comes, in pieces. Pieces that find the channel full are left out, since a slow
    /// reader must not hold up the command; the result has the output in any case.
    ///
    /// # Errors
    /// When the command could not be run. A command that ran and failed, was stopped or timed out is not an error.
    fn run(
        &self,
        command: Command,
        cancel: CancellationToken,
        progress: Option<mpsc::Sender<String>>,
    ) -> BoxFuture<'_, Result<CommandOutput, ShellError>>;
}
