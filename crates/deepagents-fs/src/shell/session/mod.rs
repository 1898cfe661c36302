//! Sessions: commands that share one process.

mod output;

use std::collections::BTreeSet;
use std::io::{PipeReader, PipeWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures_core::future::BoxFuture;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use self::output::CommandEnd;
pub(crate) use self::output::SessionOutput;
use super::capture::StreamedCapture;
use super::command::HeldValues;
use super::local::Inner;
use super::supervise::{Finished, Output, supervise};
use super::{Command, CommandOutput, Exit, Moved, SessionOptions, Shell, ShellError};
use crate::VPath;
use crate::sandbox::Level;
use crate::sandbox::appeared::Appeared;

/// Reads commands and runs them one by one. A command has no access to the pipe that commands arrive on or to the one
/// that reports their ends. Its redirections end with it, unless it uses `exec`.
const DRIVER: &str = include_str!("driver.sh");

/// A session of a [`LocalShell`](super::LocalShell). The process starts with the first command, and again with the next
/// command after it ended.
pub(super) struct LocalSession {
    shell: Arc<Inner>,
    options: SessionOptions,
    /// Allows one command at a time.
    turn: Semaphore,
    /// The process, while no command is running.
    idle: Mutex<Option<Process>>,
}

/// Process of a session. Ends on drop.
struct Process {
    input: Arc<PipeWriter>,
    output: Arc<SessionOutput>,
    /// Set before it runs any command.
    start: Arc<OnceLock<StartState>>,
    ended: oneshot::Receiver<Result<Finished, ShellError>>,
    /// Dropping this tells the supervising thread to end the process.
    wanted: Option<PipeWriter>,
}

/// State recorded when a session's process starts.
struct StartState {
    /// Confinement of the process.
    level: Level,
    /// The protected places before, if the process is confined.
    places: Option<Appeared>,
    /// Paths that the process is kept from changing, by name.
    guarded: BTreeSet<PathBuf>,
}

/// How a command in a session ended.
enum Ended {
    ByItself(CommandEnd),
    /// Together with the session, which ended by itself or for the given reason.
    WithSession(Finished, Option<Exit>),
}

/// Result of starting a session.
enum Started {
    Ready(Process),
    /// The caller cancelled.
    Cancelled(CommandOutput),
}

impl LocalSession {
    pub(super) fn new(shell: Arc<Inner>, options: SessionOptions) -> Self {
        Self { shell, options, turn: Semaphore::new(1), idle: Mutex::default() }
    }

    /// Takes the idle process: one that still runs, or one that has ended since the last command.
    fn take_idle(&self) -> (Option<Process>, Option<Process>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let has_ended =
            |process: &mut Process| !matches!(process.ended.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        let gone = idle.take_if(has_ended);
        (idle, gone)
    }

    /// Starts a process and runs the session's startup commands.
    async fn start(&self, held: HeldValues, cancel: &CancellationToken) -> Result<Started, ShellError> {
        let mut process = Process::start(&self.shell, held)?;
        for text in &self.options.startup {
            let timeout = self.shell.check(&Command::new(text))?;
            let (ended, _) = process.execute(text, self.capture(None), timeout, cancel).await?;
            let (exit, output) = match ended {
                Ended::ByItself(CommandEnd { status: 0, .. }) => continue,
                Ended::ByItself(done) => (Exit::Code(done.status), done.output),
                Ended::WithSession(finished, reason) => {
                    let done = self.end(&process, finished, reason)?;
                    if done.exit == Exit::Cancelled {
                        return Ok(Started::Cancelled(done));
                    }
                    (done.exit, done.output)
                }
            };
            return Err(ShellError::Startup { command: text.clone(), exit, output });
        }
        Ok(Started::Ready(process))
    }

    async fn execute(
        &self,
        command: &Command,
        cancel: &CancellationToken,
        progress: Option<mpsc::Sender<String>>,
    ) -> Result<CommandOutput, ShellError> {
        let timeout = self.shell.check(command)?;
        if command.cwd != VPath::root() || !command.env.is_empty() {
            return Err(ShellError::InSession);
        }
        let _turn = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(CommandOutput::new("", Exit::Cancelled)),
            turn = self.turn.acquire() => turn.map_err(ShellError::start)?,
        };
        let begun = Instant::now();
        let (idle, mut gone) = self.take_idle();
        let (mut process, began) = match idle {
            Some(process) => (process, false),
            None => {
                let started = self.start(command.held.clone(), cancel).await;
                if !matches!(started, Ok(Started::Ready(_))) {
                    // What is unreported of it is reported with the next command that runs.
                    *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = gone.take();
                }
                match started? {
                    Started::Ready(process) => (process, true),
                    Started::Cancelled(stopped) => return Ok(stopped),
                }
            }
        };
        let (mut moved, mut earlier_output) = gone.map(|gone| gone.unreported()).unwrap_or_default();
        let start = process.start.clone();
        // This future owns the process while it runs a command. Dropping the future ends the session, whose state would
        // be unknown.
        let (ended, earlier) = process.execute(&command.text, self.capture(progress), timeout, cancel).await?;
        let mut done = match ended {
            Ended::ByItself(done) => {
                let level = start.get().map_or(Level::None, |start| start.level);
                let made = self.made_since(start.clone()).await?;
                let exit = Exit::Code(done.status);
                let mut output =
                    CommandOutput { dropped: done.dropped, level, ..CommandOutput::new(done.output, exit) };
                if made.is_empty() {
                    *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
                } else {
                    process.end().await?;
                    (output.session.ended, output.session.ended_for) = (true, made);
                }
                output
            }
            Ended::WithSession(finished, reason) => self.end(&process, finished, reason)?,
        };
        let look = move || start.get().and_then(|start| Some(start.places.as_ref()?.moved())).unwrap_or_default();
        moved.extend(blocking("looking at the protected places", look).await?);
        earlier_output.push_str(&earlier);
        (done.moved, done.duration) = (moved, begun.elapsed());
        (done.session.began, done.session.earlier_output) = (began, earlier_output);
        Ok(done)
    }

    fn capture(&self, progress: Option<mpsc::Sender<String>>) -> StreamedCapture {
        StreamedCapture::new(self.shell.limit, progress)
    }

    /// Returns paths created since the session started that a new session could not change.
    async fn made_since(&self, start: Arc<OnceLock<StartState>>) -> Result<Vec<String>, ShellError> {
        let shell = self.shell.clone();
        let look = move || {
            let is_new = |path: &PathBuf| start.get().is_some_and(|start| !start.guarded.contains(path));
            let made = shell.guarded_by_name().into_iter().filter(is_new);
            made.map(|path| format!("/{}", path.display())).collect()
        };
        blocking("looking for repositories", look).await
    }

    /// Returns the result of a command that ended together with its session.
    fn end(&self, process: &Process, finished: Finished, reason: Option<Exit>) -> Result<CommandOutput, ShellError> {
        let (exit, level) = self.shell.end_of(&finished)?;
        let (output, dropped) = process.output.break_off();
        let mut done = CommandOutput::new(output, reason.unwrap_or(exit));
        (done.dropped, done.level, done.refused) = (dropped, level, finished.refused);
        done.session.ended = true;
        Ok(done)
    }
}

impl Shell for LocalSession {
    fn run(
        &self,
        command: Command,
        cancel: CancellationToken,
        progress: Option<mpsc::Sender<String>>,
    ) -> BoxFuture<'_, Result<CommandOutput, ShellError>> {
        Box::pin(async move { self.execute(&command, &cancel, progress).await })
    }
}

/// Runs work on the blocking thread pool.
async fn blocking<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ShellError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ShellError::Lost(format!("{what} broke off")))
}

/// Error for a supervising thread that ended without a result.
fn lost(_: oneshot::error::RecvError) -> ShellError {
    ShellError::Lost("the watching thread broke off".to_owned())
}

impl Process {
    /// Returns what has not been reported of a process that has ended: renamed files, and output.
    fn unreported(&self) -> (Vec<Moved>, String) {
        let places = self.start.get().and_then(|start| start.places.as_ref());
        (places.map(Appeared::take_moved).unwrap_or_default(), self.output.take_between())
    }

    /// Starts a process, and keeps the values until it has ended.
    fn start(shell: &Arc<Inner>, held: HeldValues) -> Result<Self, ShellError> {
        let (commands, input) = std::io::pipe().map_err(ShellError::start)?;
        let (caller, wanted) = std::io::pipe().map_err(ShellError::start)?;
        let (tell, ended) = oneshot::channel();
        let (output, start) = (Arc::<SessionOutput>::default(), Arc::<OnceLock<StartState>>::default());
        let (shell, to, state) = (shell.clone(), output.clone(), start.clone());
        let watch = move || {
            let ended = watch(&shell, commands, &caller, to, &state);
            drop(held);
            let _ = tell.send(ended);
        };
        std::thread::Builder::new().name("deepagents-shell".to_owned()).spawn(watch).map_err(ShellError::start)?;
        Ok(Self { input: Arc::new(input), output, start, ended, wanted: Some(wanted) })
    }

    /// Runs a command. Also returns the output since the previous command.
    async fn execute(
        &mut self,
        text: &str,
        capture: StreamedCapture,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Result<(Ended, String), ShellError> {
        let mark = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let request = format!("{mark}\n{}\n{text}\n", text.split('\n').count());
        let (done, earlier) = self.output.begin(&mark, capture);
        let input = self.input.clone();
        // A stopped shell does not read, which blocks this thread until the session is ended.
        tokio::task::spawn_blocking(move || {
            let _ = (&*input).write_all(request.as_bytes());
        });
        let reason = tokio::select! {
            biased;
            Ok(done) = done => return Ok((Ended::ByItself(done), earlier)),
            finished = &mut self.ended => return Ok((Ended::WithSession(finished.map_err(lost)??, None), earlier)),
            () = cancel.cancelled() => Exit::Cancelled,
            () = tokio::time::sleep(timeout) => Exit::TimedOut { after: timeout },
        };
        Ok((Ended::WithSession(self.end().await?, Some(reason)), earlier))
    }

    /// Ends the process with everything it started.
    async fn end(&mut self) -> Result<Finished, ShellError> {
        drop(self.wanted.take());
        (&mut self.ended).await.map_err(lost)?
    }
}

/// Runs a session's process to its end.
fn watch(
    shell: &Inner,
    commands: PipeReader,
    caller: &PipeReader,
    output: Arc<SessionOutput>,
    start: &OnceLock<StartState>,
) -> Result<Finished, ShellError> {
    let cwd = shell.directory(&VPath::root())?;
    let job = shell.job(DRIVER, &cwd, shell.env.clone(), Some(commands))?;
    let (level, places) = (shell.level(), shell.places()?);
    // A path that appears between this and the mounts is protected but looks new, which ends the session unnecessarily.
    let start = start.get_or_init(|| StartState { level, places, guarded: shell.guarded_by_name() });
    let finished = supervise(job, Duration::MAX, caller, Output::Session(output)).map_err(ShellError::start);
    // Processes that the session left running may have created something after its last command.
    if let Some(places) = &start.places {
        places.rename_appeared();
    }
    finished
}
