//! A backend with a shell.

use std::sync::Arc;

use super::Shell;
use crate::Backend;
use crate::forward::forward;

/// A backend that can also run commands. The inner backend provides the files; the shell should work on the same
/// directory.
///
/// ```
/// use deepagents_fs::shell::{Confinement, LocalShell, WithShell};
/// use deepagents_fs::{Backend, LocalBackend};
/// # let dir = tempfile::tempdir()?;
/// let files = LocalBackend::open(dir.path())?;
/// let shell = LocalShell::open(files.host_path(), Confinement::sandboxed())?;
/// let workspace = WithShell::new(files, shell);
/// assert!(workspace.shell().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct WithShell<B> {
    backend: B,
    shell: Arc<dyn Shell>,
}

impl<B: Backend> WithShell<B> {
    /// Adds a shell to a backend.
    pub fn new(backend: B, shell: impl Shell) -> Self {
        Self { backend, shell: Arc::new(shell) }
    }
}

impl<B: Backend> Backend for WithShell<B> {
    forward!([.backend]; stat, read, read_to_change, read_lines, list, write, delete, glob, grep, resolve, lock);
    forward!([.backend]; capabilities, pinned, change_access, shell_visible, shell_unreachable, channels);

    fn shell(&self) -> Option<&dyn Shell> {
        Some(&*self.shell)
    }
}
