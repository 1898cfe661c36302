//! Runs commands in the editor's terminal or in the host's own shell.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deepagents::fs::permissions::Permissions;
use deepagents::fs::shell::{Command, CommandOutput, Exit, SessionOptions, Shell, ShellError};
use deepagents::fs::{CommandGuard, HostDirectory};
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::files::on_disk;
use super::{CurrentCall, Editor, EditorError, REQUEST_TIMEOUT};
use crate::policy::{Mode, Policy};
use crate::wire;

/// Default time limit of a command in a terminal.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum length of the output in an error about a missing exit status, in characters.
const MAX_SHOWN_CHARS: usize = 4_000;
/// Maximum size of a terminal's output, in bytes.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;
/// How long the editor may take to kill a command and report its exit status, and then again to return its output.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// The commands of a session. In [`Mode::Auto`] they run in the host's own shell, which should be a sandbox. In other
/// modes they run in the editor's terminal, with all the rights of the person who approves them, or in the host's own
/// shell if the editor has no terminal.
pub(crate) struct SessionShell {
    pub(crate) editor: Editor,
    pub(crate) own: Option<Arc<dyn Shell>>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) root: PathBuf,
    pub(crate) directory: Option<HostDirectory>,
}

/// A terminal, released on drop.
struct Terminal {
    editor: Editor,
    id: wire::TerminalId,
    /// Excludes file accesses through the editor while its command may run.
    running: Option<CommandGuard>,
}

impl Terminal {
    /// Creates a terminal that runs a command. If the caller stops waiting, the command is killed as soon as the editor
    /// returns the terminal.
    async fn create(
        editor: &Editor,
        request: wire::CreateTerminalRequest,
        running: Option<CommandGuard>,
    ) -> Result<Self, EditorError> {
        let (tell, made) = oneshot::channel();
        let editor = editor.clone();
        tokio::spawn(async move {
            let made = editor.create_terminal(request).await.map(|id| Self { editor, id, running });
            if let Err(Ok(late)) = tell.send(made) {
                late.editor.kill_terminal(&late.id).await;
            }
        });
        match tokio::time::timeout(REQUEST_TIMEOUT, made).await {
            Ok(Ok(made)) => made,
            Ok(Err(_)) | Err(_) => Err(EditorError::Silent),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let (released, running) = (self.editor.release_terminal(&self.id), self.running.take());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                released.await;
                drop(running);
            });
        }
    }
}

impl From<EditorError> for ShellError {
    fn from(error: EditorError) -> Self {
        Self::Lost(error.to_string())
    }
}

impl SessionShell {
    async fn in_terminal(&self, command: Command, cancel: CancellationToken) -> Result<CommandOutput, ShellError> {
        if command.text().trim().is_empty() {
            return Err(ShellError::Empty);
        }
        let env = command.variables().map(|(name, value)| wire::EnvVariable::new(name, value));
        let request = wire::CreateTerminalRequest::new(self.editor.session().clone(), "sh")
            .args(vec!["-c".to_owned(), command.text().to_owned()])
            .env(env.collect())
            .cwd(on_disk(&self.root, command.directory()))
            .output_byte_limit(MAX_OUTPUT_BYTES);
        let began = Instant::now();
        let start = async {
            let running = match &self.directory {
                Some(directory) => Some(directory.exclude_access().await?),
                None => None,
            };
            let made = Terminal::create(&self.editor, request, running).await;
            made.map_err(|error| ShellError::Start(error.to_string()))
        };
        let mut terminal = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(CommandOutput::new(String::new(), Exit::Cancelled)),
            made = start => made?,
        };
        CurrentCall::runs_in(&terminal.id.0);
        let limit = command.limit().unwrap_or(DEFAULT_TIMEOUT);
        let stopped = tokio::select! {
            biased;
            () = cancel.cancelled() => Some(Exit::Cancelled),
            ended = self.editor.wait_for_exit(&terminal.id) => {
                let ended = ended?;
                terminal.running = None;
                let printed = self.editor.terminal_output(&terminal.id).await?;
                return match exit_of(&ended) {
                    Some(exit) => Ok(output(printed, exit, began)),
                    None => Err(ShellError::Lost(missing_status(&ended, &printed.output))),
                };
            }
            () = tokio::time::sleep(limit) => Some(Exit::TimedOut { after: limit }),
        };
        let exit = stopped.unwrap_or(Exit::Cancelled);
        let killed = async {
            self.editor.kill_terminal(&terminal.id).await;
            // Waits for the exit, so that the last output has arrived.
            self.editor.wait_for_exit(&terminal.id).await
        };
        let _ = tokio::time::timeout(KILL_TIMEOUT, killed).await;
        let printed = tokio::time::timeout(KILL_TIMEOUT, self.editor.terminal_output(&terminal.id)).await;
        // An unresponsive editor must not delay the end of the call.
        let nothing = || wire::TerminalOutputResponse::new(String::new(), false);
        Ok(output(printed.ok().and_then(Result::ok).unwrap_or_else(nothing), exit, began))
    }
}

/// Builds the output of a command.
fn output(printed: wire::TerminalOutputResponse, exit: Exit, began: Instant) -> CommandOutput {
    let mut output = CommandOutput::new(printed.output, exit);
    // The editor does not report how much is missing.
    output.dropped = u64::from(printed.truncated);
    output.duration = began.elapsed();
    output
}

/// Describes a command whose exit status the editor did not report.
fn missing_status(status: &wire::TerminalExitStatus, printed: &str) -> String {
    let said = match &status.signal {
        Some(signal) => format!("the editor says that `{signal}` ended it, which is no signal that is known"),
        None => "the editor tells neither an exit code nor a signal".to_owned(),
    };
    let missing = printed.chars().count().saturating_sub(MAX_SHOWN_CHARS);
    let end: String = printed.chars().skip(missing).collect();
    format!("{said}. The end of what it printed:\n{end}")
}

/// Converts an exit status, if the editor reports one.
fn exit_of(status: &wire::TerminalExitStatus) -> Option<Exit> {
    if let Some(code) = status.exit_code {
        return Some(Exit::Code(i32::try_from(code).unwrap_or(i32::MAX)));
    }
    let name = status.signal.as_deref()?.to_ascii_uppercase();
    // The numbers of these two differ between systems.
    let (usr1, usr2) = if cfg!(target_os = "macos") { (30, 31) } else { (10, 12) };
    match name.as_str() {
        "SIGUSR1" => Some(Exit::Signal(usr1)),
        "SIGUSR2" => Some(Exit::Signal(usr2)),
        name => {
            let known = (1..=31).map(Exit::Signal).find(|exit| exit.signal_name() == Some(name));
            known.or_else(|| name.parse().ok().map(Exit::Signal))
        }
    }
}

impl Shell for SessionShell {
    /// Applies file rules to the host's own shell only. Commands in the editor's terminal have the person's rights.
    fn under(&self, rules: &Permissions) -> Option<Arc<dyn Shell>> {
        self.own.as_ref()?.under(rules)
    }

    /// Returns a session of the host's own shell, in every mode: commands in the editor's terminal share nothing.
    fn session(&self, options: &SessionOptions) -> Option<Arc<dyn Shell>> {
        self.own.as_ref()?.session(options)
    }

    fn run(
        &self,
        command: Command,
        cancel: CancellationToken,
        progress: Option<mpsc::Sender<String>>,
    ) -> BoxFuture<'_, Result<CommandOutput, ShellError>> {
        if self.policy.mode() != Mode::Auto && self.editor.has_terminals() {
            return Box::pin(self.in_terminal(command, cancel));
        }
        match &self.own {
            Some(own) => own.run(command, cancel, progress),
            None => Box::pin(async {
                Err(ShellError::Start("in this mode there is no shell to run it in; choose the mode `ask`".to_owned()))
            }),
        }
    }
}
