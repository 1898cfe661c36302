//! Runs commands on this machine.

mod run;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::session::LocalSession;
use super::{Command, CommandOutput, Exit, SessionOptions, Shell, ShellError};
use crate::OpenError;
use crate::permissions::Permissions;
use crate::sandbox::protocol::Identity;
use crate::sandbox::toolchains::PATH;
use crate::sandbox::{PolicyError, Sandbox, SandboxPolicy, launch};

/// Confinement of commands.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "there is one for each shell")]
pub enum Confinement {
    /// Commands run in a sandbox and are refused if it is not available.
    Sandboxed(SandboxPolicy),
    /// No confinement. A command may do whatever the program may: read any file, reach any host, leave processes
    /// behind.
    Unconfined,
}

impl Confinement {
    /// Confines commands to a sandbox with the default policy.
    pub fn sandboxed() -> Self {
        Self::Sandboxed(SandboxPolicy::default())
    }
}

/// Runs commands in a directory of this machine, with `/bin/sh -c`.
///
/// Standard input is empty. The environment consists of `PATH`, `HOME`, `LANG` and `TERM` with fixed values, and the
/// variables added by [`env`](Self::env) and [`inherit`](Self::inherit); nothing else of the program's own environment
/// is passed on. In a sandbox, `HOME` is a private directory that is removed with the command; otherwise it is the
/// root.
///
/// An unconfined command is killed with its process group. A process that created its own session (a daemon) outlives
/// it, and so does work that the command handed to other programs. If the system has no `setsid`, an unconfined command
/// can also access the program's terminal.
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
    /// Identities of the root and of other writable directories when the shell was opened.
    identities: Vec<Identity>,
    confinement: Confinement,
    sandbox: Sandbox,
    program: PathBuf,
    pub(super) env: BTreeMap<String, String>,
    timeout: Duration,
    pub(super) limit: usize,
}

impl LocalShell {
    /// Opens a shell for an existing directory.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be used, or not with this policy.
    pub fn open(root: impl AsRef<Path>, confinement: Confinement) -> Result<Self, OpenError> {
        let given = root.as_ref();
        let failed = |source| OpenError { path: given.to_owned(), source };
        let root = given.canonicalize().map_err(failed)?;
        if !root.is_dir() {
            return Err(failed(std::io::ErrorKind::NotADirectory.into()));
        }
        let refused = |error: PolicyError| failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, error));
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut env = BTreeMap::from([("PATH", PATH), ("LANG", "C.UTF-8"), ("TERM", "dumb")].map(own));
        let mut writable = vec![root.clone()];
        let confinement = match confinement {
            Confinement::Sandboxed(policy) => {
                let policy = policy.resolved(&root).map_err(refused)?;
                env.extend([own(("HOME", launch::HOME))]);
                env.extend(policy.tools.env.clone());
                writable.extend_from_slice(&policy.writable);
                Confinement::Sandboxed(policy)
            }
            Confinement::Unconfined => {
                let home = root.to_str().ok_or_else(|| failed(std::io::ErrorKind::InvalidFilename.into()))?;
                env.extend([own(("HOME", home))]);
                Confinement::Unconfined
            }
        };
        let identities = writable.iter().map(|path| Identity::of(path)).collect::<Result<_, _>>().map_err(failed)?;
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

    /// Sets the sandbox; the default one locates its helper itself.
    #[must_use]
    pub fn sandbox(self, sandbox: Sandbox) -> Self {
        self.with(|inner| inner.sandbox = sandbox)
    }

    /// Sets the program that runs commands, called with `-c` and the text; `/bin/sh` by default.
    #[must_use]
    pub fn program(self, program: impl Into<PathBuf>) -> Self {
        self.with(|inner| inner.program = program.into())
    }

    /// Sets an environment variable for all commands. Without a sandbox, the system's shell starts the commands, and
    /// may drop variables whose names are not identifiers.
    #[must_use]
    pub fn env(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|inner| {
            inner.env.insert(name.into(), value.into());
        })
    }

    /// Passes on variables of the program's own environment with their current values. Skips variables that are unset
    /// or not UTF-8.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the caller names the variables")]
    pub fn inherit<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let values = names.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
        self.with(|inner| inner.env.extend(values))
    }

    /// Sets the time limit for commands without their own; 2 minutes by default.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|inner| inner.timeout = timeout)
    }

    /// Sets the number of bytes of output to keep, half from the start and half from the end; 1 MiB by default.
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
    /// Supported in a sandbox, where rules become mounts.
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
            // The thread watches for this pipe to close; dropping this future closes it too.
            let (caller, wanted) = std::io::pipe().map_err(ShellError::start)?;
            let (tell, mut told) = oneshot::channel();
            std::thread::Builder::new()
                .name("deepagents-shell".to_owned())
                .spawn(move || {
                    let done = inner.execute(&command, &caller, progress);
                    drop(command);
                    let _ = tell.send(done);
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
