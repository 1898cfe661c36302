//! Directories that other programs open by their paths.

mod active;
mod place;
mod shell;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use self::active::Registration;
use self::place::Place;
use self::shell::ExclusiveShell;
use crate::OpenError;
use crate::shell::{Shell, ShellError};

/// How long an access may go on before commands that wait for it are refused.
const ACCESS_TIMEOUT: Duration = Duration::from_secs(75);

/// A directory whose files another program, such as an editor, opens by their host paths.
///
/// A backend opens files below a handle, so nothing leads it outside its directory. Another program opens a path anew: a
/// command that replaces a directory by a link at that moment leads it anywhere. Therefore an [access](Self::access) by
/// path and the commands of a [shell](Self::shell) exclude each other, also through other values for the same
/// directory, one above it or one below it, in the whole process:
///
/// - An access waits for nothing. It is refused while commands run or wait, and the caller uses its backend instead.
/// - A command waits for the accesses that began before it.
///
/// ```
/// use std::sync::Arc;
/// use deepagents_fs::HostDirectory;
/// use deepagents_fs::shell::{Command, Confinement, LocalShell, Shell};
/// # let dir = tempfile::tempdir()?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let directory = HostDirectory::open(dir.path())?;
/// let shell = directory.shell(Arc::new(LocalShell::open(dir.path(), Confinement::Unconfined)?));
/// let access = directory.access().await.ok_or("a command is running")?;
/// // The editor opens a file here, and no command runs until it has answered.
/// drop(access);
/// shell.run(Command::new("ls"), Default::default(), None).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HostDirectory {
    path: Arc<Path>,
    place: Arc<Place>,
    /// Keeps the identity of the directory from being given to another one.
    #[cfg(unix)]
    _open: Arc<std::fs::File>,
}

/// Excludes commands while another program opens a file by its path.
#[derive(Debug)]
pub struct AccessGuard {
    _registration: Registration,
}

/// Excludes accesses by path while a command may change the directory.
#[derive(Debug)]
pub struct CommandGuard {
    _registration: Registration,
}

impl HostDirectory {
    /// Opens an existing directory. Blocks for as long as the system takes to look it up.
    ///
    /// # Errors
    /// Returns an error if the path is not a directory.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let given = path.as_ref();
        let failed = |source| OpenError { path: given.to_owned(), source };
        let path = std::path::absolute(given).map_err(failed)?;
        let place = Place::find(&path).map_err(failed)?;
        #[cfg(unix)]
        let open = place.open().map_err(failed)?;
        Ok(Self {
            path: path.into(),
            place: Arc::new(place),
            #[cfg(unix)]
            _open: Arc::new(open),
        })
    }

    /// Begins an access by path, which must end before the guard is dropped. Returns `None` while commands run or wait,
    /// and if the path does not lead to the directory that was opened any more, or leads to it on another way.
    ///
    /// The path of the file must have been resolved under this guard: below the directory, no link may be in it.
    pub async fn access(&self) -> Option<AccessGuard> {
        let guard = AccessGuard { _registration: Registration::access(&self.place)? };
        let (path, place) = (self.path.clone(), self.place.clone());
        // Only now, because a command could have replaced it until the guard was there.
        let is_same = move || Place::find(&path).is_ok_and(|found| found == *place);
        let is_same = tokio::task::spawn_blocking(is_same).await;
        is_same.unwrap_or(false).then_some(guard)
    }

    /// Waits until no file is accessed by its path, and excludes further accesses meanwhile. The guard must be kept for
    /// as long as a process of the command may be left.
    ///
    /// # Errors
    /// Returns an error if an access takes too long, because the other program has not answered.
    pub async fn exclude_access(&self) -> Result<CommandGuard, ShellError> {
        self.exclude_access_within(Some(ACCESS_TIMEOUT)).await
    }

    async fn exclude_access_within(&self, limit: Option<Duration>) -> Result<CommandGuard, ShellError> {
        let registration = Registration::command(&self.place);
        if registration.alone(limit).await {
            return Ok(CommandGuard { _registration: registration });
        }
        Err(ShellError::Start(format!(
            "another program, such as the editor, has not answered a request to write a file here for {} s, and no \
             command is run until it has",
            ACCESS_TIMEOUT.as_secs()
        )))
    }

    /// Returns the shell with commands that exclude accesses by path from their start until none of their processes is
    /// left, which the shell must report as [`Command::while_running`](crate::shell::Command::while_running) says. In a
    /// [session](Shell::session), this lasts until the session's process has ended.
    pub fn shell(&self, shell: Arc<dyn Shell>) -> Arc<dyn Shell> {
        Arc::new(ExclusiveShell { directory: self.clone(), shell, limit: Some(ACCESS_TIMEOUT) })
    }

    /// Like [`shell`](Self::shell), but its commands wait for as long as an access goes on, instead of being refused. For
    /// commands that must not be skipped, such as hooks that review calls.
    pub fn waiting_shell(&self, shell: Arc<dyn Shell>) -> Arc<dyn Shell> {
        Arc::new(ExclusiveShell { directory: self.clone(), shell, limit: None })
    }
}
