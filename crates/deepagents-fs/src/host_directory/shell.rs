//! Commands that exclude accesses by path.

use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::HostDirectory;
use crate::permissions::Permissions;
use crate::shell::{Command, CommandOutput, Exit, SessionOptions, Shell, ShellError};

/// A shell whose commands exclude accesses by path.
pub(super) struct ExclusiveShell {
    pub(super) directory: HostDirectory,
    pub(super) shell: Arc<dyn Shell>,
    /// How long an access may go on before commands are refused.
    pub(super) limit: Option<Duration>,
}

impl ExclusiveShell {
    fn around(&self, shell: Arc<dyn Shell>) -> Arc<dyn Shell> {
        Arc::new(Self { directory: self.directory.clone(), shell, limit: self.limit })
    }
}

impl Shell for ExclusiveShell {
    fn under(&self, rules: &Permissions) -> Option<Arc<dyn Shell>> {
        Some(self.around(self.shell.under(rules)?))
    }

    fn session(&self, options: &SessionOptions) -> Option<Arc<dyn Shell>> {
        Some(self.around(self.shell.session(options)?))
    }

    fn run(
        &self,
        command: Command,
        cancel: CancellationToken,
        progress: Option<mpsc::Sender<String>>,
    ) -> BoxFuture<'_, Result<CommandOutput, ShellError>> {
        Box::pin(async move {
            let guard = tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(CommandOutput::new("", Exit::Cancelled)),
                guard = self.directory.exclude_access_within(self.limit) => Arc::new(guard?),
            };
            // Kept here as well, for shells that drop the command before it has ended.
            let command = command.while_running(guard.clone());
            let done = self.shell.run(command, cancel, progress).await;
            drop(guard);
            done
        })
    }
}
