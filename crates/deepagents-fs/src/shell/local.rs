//! Commands on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::io::PipeReader;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::session::LocalSession;
use super::supervise::{End, Finished, Job, Output, supervise};
use super::{Command, CommandOutput, Exit, SessionChange, SessionOptions, Shell, ShellError};
use crate::permissions::Permissions;
use crate::sandbox::appeared::Appeared;
use crate::sandbox::protocol::Identity;
use crate::sandbox::toolchains::PATH;
use crate::sandbox::{Level, PolicyError, Sandbox, SandboxPolicy, launch};
use crate::{OpenError, VPath};

/// Linux takes no longer text as one argument of a program.
const MAX_TEXT: usize = (128 << 10) - 1;

/// How commands are held in.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "there is one for each shell")]
pub enum Confinement {
    /// In a sandbox, or not at all: where it cannot be had, commands are refused.
    Sandboxed(SandboxPolicy),
    /// Not. A command may do whatever the program may: read any file, reach any host, leave processes behind.
    Unconfined,
}

impl Confinement {
    /// In a sandbox with the default policy.
    pub fn sandboxed() -> Self {
        Self::Sandboxed(SandboxPolicy::default())
    }
}

/// Runs commands in a directory of this machine, with `/bin/sh -c`.
///
/// Standard input is empty. The environment is `PATH`, `HOME`, `LANG` and `TERM` with fixed values and what is added by
/// [`env`](Self::env) and [`inherit`](Self::inherit); nothing else of the program's own environment is passed on.
/// `HOME` is a directory of the command's own in a sandbox, which vanishes with it, and the root otherwise.
///
/// An unconfined command is killed with its process group. A process that made a session of its own (a daemon)
/// outlives it, and so does what a stopped command had handed to other programs. It can also reach the program's
/// terminal, if there is one.
///
/// ```
/// use deepagents_fs::shell::{Command, Confinement, Exit, LocalShell, Shell};
/// # let dir = tempfile::tempdir()?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let shell = LocalShell::open(dir.path(), Confinement::Unconfined)?;
/// let done = shell.run(Command::new("echo out; echo err >&2; exit 3"), Default::default(), None).await?;
/// assert_eq!((done.output.as_str(), done.exit), ("out\nerr\n", Exit::Code(3)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LocalShell {
    inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
pub(super) struct Inner {
    root: PathBuf,
    /// What the root, and what else is writable, was when the shell was opened.
    identities: Vec<Identity>,
    confinement: Confinement,
    sandbox: Sandbox,
    program: PathBuf,
    pub(super) env: BTreeMap<String, String>,
    timeout: Duration,
    pub(super) limit: usize,
}

impl LocalShell {
    /// A shell for an existing directory.
    ///
    /// # Errors
    /// When the directory cannot be used, or not with this policy.
    pub fn open(root: impl AsRef<Path>, confinement: Confinement) -> Result<Self, OpenError> {
        let given = root.as_ref();
        let failed = |source| OpenError { path: given.to_owned(), source };
        let root = given.canonicalize().map_err(failed)?;
        if !root.is_dir() {
            return Err(failed(std::io::ErrorKind::NotADirectory.into()));
        }
        let refused = |error: PolicyError| failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, error));
        let (confinement, home) = match confinement {
            Confinement::Sandboxed(policy) => {
                (Confinement::Sandboxed(policy.settled(&root).map_err(refused)?), launch::HOME.to_owned())
            }
            Confinement::Unconfined => {
                let home = root.to_str().ok_or_else(|| failed(std::io::ErrorKind::InvalidFilename.into()))?;
                (Confinement::Unconfined, home.to_owned())
            }
        };
        let env = [("PATH", PATH), ("HOME", &home), ("LANG", "C.UTF-8"), ("TERM", "dumb")];
        let mut env: BTreeMap<String, String> =
            env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        if let Confinement::Sandboxed(policy) = &confinement {
            env.extend(policy.tools.env.clone());
        }
        let also_writable = match &confinement {
            Confinement::Sandboxed(policy) => policy.writable.as_slice(),
            Confinement::Unconfined => &[],
        };
        let writable = std::iter::once(&root).chain(also_writable);
        let identities = writable.map(|path| Identity::look(path)).collect::<Result<_, _>>().map_err(failed)?;
        let inner = Inner {
            root,
            identities,
            confinement,
            sandbox: Sandbox::new(),
            program: PathBuf::from("/bin/sh"),
            env,
            timeout: Duration::from_secs(120),
            limit: 1 << 20,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The sandbox to use; by default one that looks for its helper itself.
    #[must_use]
    pub fn sandbox(self, sandbox: Sandbox) -> Self {
        self.with(|inner| inner.sandbox = sandbox)
    }

    /// The program that runs commands, called with `-c` and the text; `/bin/sh` by default.
    #[must_use]
    pub fn program(self, program: impl Into<PathBuf>) -> Self {
        self.with(|inner| inner.program = program.into())
    }

    /// Sets an environment variable for all commands.
    #[must_use]
    pub fn env(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|inner| {
            inner.env.insert(name.into(), value.into());
        })
    }

    /// Passes variables of the program's own environment on, with the values they have now. What is not set, or not
    /// UTF-8, is left out.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the caller names the variables")]
    pub fn inherit<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let values = names.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
        self.with(|inner| inner.env.extend(values))
    }

    /// How long a command may run that does not say itself; 2 minutes by default.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|inner| inner.timeout = timeout)
    }

    /// How many bytes of output are kept, half of them from the beginning and half from the end; 1 MiB by default.
    #[must_use]
    pub fn output_limit(self, bytes: usize) -> Self {
        self.with(|inner| inner.limit = bytes)
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.inner));
        self
    }
}

impl Shell for LocalShell {
    /// In a sandbox: the rules become mounts.
    fn under(&self, rules: &Permissions) -> Option<Arc<dyn Shell>> {
        let mut inner = Inner::clone(&self.inner);
        match &mut inner.confinement {
            Confinement::Sandboxed(policy) => policy.rules.push(rules.clone()),
            Confinement::Unconfined => return None,
        }
        Some(Arc::new(Self { inner: Arc::new(inner) }))
    }

    fn session(&self, options: &SessionOptions) -> Option<Arc<dyn Shell>> {
        Some(Arc::new(LocalSession::new(self.inner.clone(), options.clone())))
    }

    fn run(
        &self,
        command: Command,
        cancel: CancellationToken,
        progress: Option<mpsc::Sender<String>>,
    ) -> BoxFuture<'_, Result<CommandOutput, ShellError>> {
        Box::pin(async move {
            if cancel.is_cancelled() {
                return Ok(CommandOutput::new("", Exit::Cancelled));
            }
            let inner = self.inner.clone();
            // The thread watches for this pipe to close, which dropping this future does as well.
            let (caller, wanted) = std::io::pipe().map_err(ShellError::start)?;
            let (tell, mut told) = oneshot::channel();
            std::thread::Builder::new()
                .name("deepagents-shell".to_owned())
                .spawn(move || {
                    let _ = tell.send(inner.execute(&command, &caller, progress));
                })
                .map_err(ShellError::start)?;
            let lost = |_| ShellError::Lost("the watching thread broke off".to_owned());
            tokio::select! {
                biased;
                done = &mut told => done.map_err(lost)?,
                () = cancel.cancelled() => {
                    drop(wanted);
                    told.await.map_err(lost)?
                }
            }
        })
    }
}

impl Inner {
    fn execute(
        &self,
        command: &Command,
        caller: &PipeReader,
        progress: Option<mpsc::Sender<String>>,
    ) -> Result<CommandOutput, ShellError> {
        let timeout = self.check(command)?;
        let cwd = self.directory(&command.cwd)?;
        let mut env = self.env.clone();
        env.extend(command.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        let job = self.job(&command.text, &cwd, env, timeout, None)?;
        let places = self.places()?;
        let done = supervise(job, caller, Output::Captured(progress)).map_err(ShellError::start)?;
        let moved = places.map(|places| places.moved()).unwrap_or_default();
        let (exit, level) = self.end_of(&done)?;
        let Finished { output, dropped, duration, refused, .. } = done;
        let exit = if let Exit::TimedOut { .. } = exit { Exit::TimedOut { after: timeout } } else { exit };
        Ok(CommandOutput { output, exit, dropped, duration, level, refused, moved, session: SessionChange::default() })
    }

    /// The process for a text, which reads `input` if there is one.
    pub(super) fn job<'a>(
        &'a self,
        text: &'a str,
        cwd: &'a Path,
        env: BTreeMap<String, String>,
        timeout: Duration,
        input: Option<PipeReader>,
    ) -> Result<Job<'a>, ShellError> {
        let mut job = match &self.confinement {
            Confinement::Unconfined => {
                let mut process = std::process::Command::new(&self.program);
                process.arg("-c").arg(text).env_clear().envs(&env).current_dir(cwd);
                Job { command: process, helper: None, timeout, limit: self.limit, spare: None, input: None }
            }
            Confinement::Sandboxed(policy) => {
                let report = self.sandbox.probe();
                if report.level < policy.least() {
                    return Err(ShellError::NoSandbox(report));
                }
                let task = launch::Task {
                    root: Some(&self.root),
                    identities: &self.identities,
                    cwd,
                    program: &self.program,
                    text,
                    takes_input: input.is_some(),
                };
                self.sandbox.job(policy, &task, env, timeout, self.limit)?
            }
        };
        job.input = input;
        Ok(job)
    }

    /// The protected places as they are now, where commands are held in.
    pub(super) fn places(&self) -> Result<Option<Appeared>, ShellError> {
        let Confinement::Sandboxed(policy) = &self.confinement else { return Ok(None) };
        let failed = |error: std::io::Error| ShellError::Setup {
            step: "look at the protected places".to_owned(),
            reason: error.to_string(),
        };
        Appeared::begin(&self.root, policy).map(Some).map_err(failed)
    }

    /// What a command that starts now could not change by the name of it.
    pub(super) fn guarded_by_name(&self) -> BTreeSet<PathBuf> {
        match &self.confinement {
            Confinement::Sandboxed(policy) => launch::guarded_by_name(&self.root, policy),
            Confinement::Unconfined => BTreeSet::new(),
        }
    }

    /// How commands are confined here. The first look at it takes a while.
    pub(super) fn level(&self) -> Level {
        match &self.confinement {
            Confinement::Unconfined => Level::None,
            Confinement::Sandboxed(_) => self.sandbox.probe().level,
        }
    }

    /// How a process ended, and how it was confined.
    pub(super) fn end_of(&self, done: &Finished) -> Result<(Exit, Level), ShellError> {
        match &self.confinement {
            Confinement::Unconfined => Ok((seen(done), Level::None)),
            Confinement::Sandboxed(_) => told_by_helper(done),
        }
    }

    pub(super) fn check(&self, command: &Command) -> Result<Duration, ShellError> {
        let text = &command.text;
        if text.trim().is_empty() {
            return Err(ShellError::Empty);
        }
        if text.len() > MAX_TEXT {
            return Err(ShellError::TooLong { bytes: text.len(), limit: MAX_TEXT });
        }
        let invalid = |what: String, character| Err(ShellError::Invalid { what, character });
        if text.contains('\0') {
            return invalid("the command".to_owned(), "a NUL character");
        }
        for (name, value) in self.env.iter().chain(&command.env) {
            if name.is_empty() || name.contains('=') {
                return invalid(format!("the name `{name}` of a variable"), "no text or `=`");
            }
            if name.contains('\0') || value.contains('\0') {
                return invalid(format!("the variable {}", name.escape_debug()), "a NUL character");
            }
        }
        let timeout = command.timeout.unwrap_or(self.timeout);
        if timeout.is_zero() { Err(ShellError::NoTime) } else { Ok(timeout) }
    }

    /// Where a directory of the workspace is on the host.
    pub(super) fn directory(&self, cwd: &VPath) -> Result<PathBuf, ShellError> {
        let refuse = |reason: String| ShellError::Directory { cwd: cwd.clone(), reason };
        let own = self.identities.iter().find(|identity| identity.path == self.root);
        if own != Identity::look(&self.root).ok().as_ref() {
            return Err(refuse(
                "the workspace is not the directory any more that it was when it was opened".to_owned(),
            ));
        }
        let there = self.root.join(cwd.relative()).canonicalize().map_err(|error| refuse(error.kind().to_string()))?;
        if !there.starts_with(&self.root) {
            return Err(refuse("it leads outside the workspace".to_owned()));
        }
        if !there.is_dir() {
            return Err(refuse("it is not a directory".to_owned()));
        }
        Ok(there)
    }
}

/// How an unconfined process ended.
fn seen(done: &Finished) -> Exit {
    match done.end {
        End::TimedOut => Exit::TimedOut { after: done.duration },
        End::Cancelled => Exit::Cancelled,
        End::OutOfSpace => Exit::OutOfSpace,
        End::Exited(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or_default()),
        },
    }
}

/// How a command in a sandbox ended, by what the helper said.
fn told_by_helper(done: &Finished) -> Result<(Exit, Level), ShellError> {
    let said = launch::Said::parse(&done.said);
    if let Some((step, reason)) = said.failed {
        return Err(ShellError::Setup { step, reason });
    }
    let level = said.report.map_or(Level::None, |report| report.level);
    match (done.end, said.exit) {
        (End::TimedOut | End::Cancelled | End::OutOfSpace, _) => Ok((seen(done), level)),
        (End::Exited(_), Some(exit)) => Ok((exit, level)),
        (End::Exited(status), None) => Err(ShellError::Lost(format!("the sandbox helper ended early ({status})"))),
    }
}
