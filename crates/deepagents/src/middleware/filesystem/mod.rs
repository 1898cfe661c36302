//! Files: the tools `ls`, `read_file`, `write_file`, `edit_file`, `delete`, `glob` and `grep` on a [`Backend`].

mod evict;
mod render;
mod seen;
mod tools;

use std::sync::Arc;

use deepagents_core::error::Result;
use deepagents_core::middleware::{Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::run::Context;
use deepagents_core::state::ChannelSpec;
use deepagents_core::tool::DynTool;
use deepagents_fs::{Backend, StateBackend};

use crate::workspace::Workspace;
use tools::{Delete, EditFile, Glob, Grep, Ls, ReadFile, WriteFile};

pub use seen::SeenFiles;

/// Gives the agent files.
///
/// ```
/// use deepagents::middleware::filesystem::{Filesystem, FilesystemOptions};
/// let in_state = Filesystem::default();
/// let lenient = Filesystem::new(deepagents_fs::StateBackend::new())
///     .options(FilesystemOptions { read_before_edit: false, ..Default::default() });
/// ```
#[derive(Clone)]
pub struct Filesystem {
    workspace: Workspace,
    options: FilesystemOptions,
}

/// How the file tools behave.
#[derive(Clone, Debug)]
pub struct FilesystemOptions {
    /// Refuse to change a file that the thread has neither read nor written, or that changed since.
    pub read_before_edit: bool,
    /// How `read_file` shows text.
    pub read_format: ReadFormat,
    /// Tokens that a result of any tool may have, counted as four characters each; a larger one goes to a file, or for
    /// the file tools is cut. `None` for no limit.
    pub result_tokens: Option<usize>,
    /// Bytes of a picture, sound, video or document that `read_file` attaches.
    pub max_media_bytes: u64,
}

impl Default for FilesystemOptions {
    fn default() -> Self {
        Self {
            read_before_edit: true,
            read_format: ReadFormat::Numbered,
            result_tokens: Some(20_000),
            max_media_bytes: 10 << 20,
        }
    }
}

/// How `read_file` shows text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadFormat {
    /// Each line after its number, right-aligned to six, and a tab; notes in brackets at the end.
    #[default]
    Numbered,
    /// The text as it is under a header `@@ lines 1-9 of 20 | next offset 9 @@`.
    Plain,
}

impl Filesystem {
    /// Files on a backend.
    pub fn new(backend: impl Backend) -> Self {
        Self::on(Workspace::One(Arc::new(backend)))
    }

    /// Files on a backend chosen at run time.
    pub fn shared(backend: Arc<dyn Backend>) -> Self {
        Self::on(Workspace::One(backend))
    }

    /// Files on a backend made for each run from its context: one per user, one per tenant.
    pub fn per_run(make: impl Fn(&Context) -> Arc<dyn Backend> + Send + Sync + 'static) -> Self {
        Self::on(Workspace::PerRun(Arc::new(make)))
    }

    pub(crate) fn on(workspace: Workspace) -> Self {
        Self { workspace, options: FilesystemOptions::default() }
    }

    /// Sets how the tools behave.
    #[must_use]
    pub fn options(mut self, options: FilesystemOptions) -> Self {
        self.options = options;
        self
    }
}

impl Default for Filesystem {
    /// Files in the thread's state.
    fn default() -> Self {
        Self::new(StateBackend::new())
    }
}

impl Middleware for Filesystem {
    fn name(&self) -> &str {
        "Filesystem"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        self.workspace.channels().into_iter().chain([ChannelSpec::of::<SeenFiles>()]).collect()
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        let files = Arc::new(self.clone());
        vec![
            Arc::new(Ls(files.clone())),
            Arc::new(ReadFile(files.clone())),
            Arc::new(WriteFile(files.clone())),
            Arc::new(EditFile(files.clone())),
            Arc::new(Delete(files.clone())),
            Arc::new(Glob(files.clone())),
            Arc::new(Grep(files)),
        ]
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        let cx = request.cx.clone();
        let response = next.run(request).await?;
        match self.budget() {
            Some(limit) => Ok(evict::evict(response, limit, &*self.workspace.of(&cx), &cx).await),
            None => Ok(response),
        }
    }
}

impl std::fmt::Debug for Filesystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filesystem").field("options", &self.options).finish_non_exhaustive()
    }
}
