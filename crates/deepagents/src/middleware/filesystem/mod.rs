//! File tools: `ls`, `read_file`, `write_file`, `edit_file` or `apply_patch`, `delete`, `glob`, `grep` and, if the
//! [`Backend`] can run commands, `execute`.

mod background;
mod evict;
mod long;
mod options;
mod patch;
mod render;
mod seen;
mod sessions;
mod tools;

use std::sync::Arc;

use deepagents_core::error::Result;
use deepagents_core::middleware::{HookOutput, Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, Update};
use deepagents_core::tool::DynTool;
use deepagents_fs::permissions::Permissions;
use deepagents_fs::{Backend, StateBackend, VPath};

use crate::artifacts::Readers;
use crate::channels::StoredResults;
use crate::description_override::DescriptionOverride;
use crate::permission_interrupts;
use crate::tokens;
use crate::workspace::Workspace;
use long::{LongMessages, Since};
use options::works;

pub(crate) use options::TOOLS;
pub(crate) use tools::NO_SESSION;

pub use background::BackgroundCommands;
pub use options::{EditTool, FilesystemOptions, ReadFormat};
pub use patch::{FileChange, Hunk, HunkError, HunkLine, Patch, PatchError};
pub use seen::SeenFiles;
pub use tools::exit_failure;

/// Gives the agent file tools.
///
/// ```
/// use deepagents::middleware::filesystem::{Filesystem, FilesystemOptions};
/// let in_state = Filesystem::default();
/// let coerce = Filesystem::new(deepagents_fs::StateBackend::new())
///     .options(FilesystemOptions { read_before_edit: false, ..Default::default() });
/// ```
#[derive(Clone, Debug)]
pub struct Filesystem {
    workspace: Workspace,
    options: FilesystemOptions,
    running: background::Running,
    sessions: sessions::ShellSessions,
    /// The rules whose decisions are recorded; the workspace enforces them.
    rules: Permissions,
}

impl Filesystem {
    /// Uses the files of a backend.
    pub fn new(backend: impl Backend) -> Self {
        Self::on(Workspace::one(backend))
    }

    pub(crate) fn on(workspace: Workspace) -> Self {
        Self {
            workspace,
            options: FilesystemOptions::default(),
            running: background::Running::default(),
            sessions: sessions::ShellSessions::default(),
            rules: Permissions::default(),
        }
    }

    /// Records what these rules allow; the workspace enforces them.
    pub(crate) fn noting(mut self, rules: Permissions) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the options of the tools.
    #[must_use]
    pub fn options(mut self, options: FilesystemOptions) -> Self {
        self.workspace = self.workspace.artifacts_below(&options.artifacts_root);
        self.options = options;
        self
    }

    /// Moves long messages of a person to files, if the agent can read them there.
    async fn store_messages(&self, since: Since, cx: &Context) -> Update {
        let readers = self.readers(self.workspace.artifacts().history(), cx);
        match tokens::limit(self.options.message_tokens).filter(|_| readers.any()) {
            Some(limit) => long::store(limit, since, &self.workspace, cx).await,
            None => Update::none(),
        }
    }

    /// Returns the tools with which the agent can read what the harness stores in a directory.
    fn readers(&self, directory: &VPath, cx: &Context) -> Readers {
        let readers = Readers::of(cx, &*self.workspace.kept_for(cx), directory);
        let allowed = &self.options.allowed_prefixes;
        let is_within = allowed.is_empty() || allowed.iter().any(|prefix| directory.starts_with(prefix));
        if is_within { readers } else { readers.without_file_tools() }
    }

    /// Returns `true` if the options offer a tool.
    fn offers(&self, name: &str) -> bool {
        match &self.options.tools {
            Some(tools) => tools.iter().any(|tool| tool == name),
            None => !self.options.edit_tool.unwrap_or_default().leaves_out(name),
        }
    }
}

impl Default for Filesystem {
    /// Keeps the files in the thread's state.
    fn default() -> Self {
        Self::new(StateBackend::new())
    }
}

impl Middleware for Filesystem {
    fn name(&self) -> &str {
        "Filesystem"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        let own =
            [ChannelSpec::new::<SeenFiles>(), ChannelSpec::new::<LongMessages>(), ChannelSpec::new::<StoredResults>()];
        self.workspace.channels().into_iter().chain(own).collect()
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        let tools = tools::all(&Arc::new(self.clone()));
        let can = self.workspace.capabilities();
        let tools = tools.into_iter().filter(|tool| {
            let name = &tool.spec().name;
            self.offers(name) && works(name, true, can)
        });
        tools.map(|tool| DescriptionOverride::by(&self.options.descriptions, tool)).collect()
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        let stored = self.store_messages(Since::Start, cx).await;
        Ok(HookOutput::update(begin(cx).and(stored)))
    }

    async fn before_model(&self, cx: &Context) -> Result<HookOutput> {
        let stored = self.store_messages(Since::LastAnswer, cx).await;
        // A run that resumes unfinished work of a copied thread has no other starting point.
        Ok(HookOutput::update(begin(cx).and(stored)))
    }

    async fn modify_request(&self, mut request: ModelRequest, cx: &Context) -> Result<ModelRequest> {
        let backend = self.workspace.backend_for(cx);
        if self.workspace.is_made_per_run() {
            let (has_shell, can) = (backend.shell().is_some(), backend.capabilities());
            request.tools.retain(|tool| works(&tool.name, has_shell, can));
            // As the harness sees it, since the agent finds its directories only once something is in them.
            tools::describe_reach(&mut request.tools, &self.workspace.kept_for(cx).shell_unreachable());
        }
        let readers = self.readers(self.workspace.artifacts().history(), cx);
        Ok(if readers.any() { long::shorten(request, readers, cx) } else { request })
    }

    async fn after_agent(&self, cx: &Context) -> Result<HookOutput> {
        self.sessions.end(cx);
        self.running.end(self.options.background_commands, cx).await;
        Ok(HookOutput::next())
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        let cx = request.cx.clone();
        let is_bounded = request.tool.as_ref().is_some_and(|tool| tool.bounds_results());
        let allowed = permission_interrupts::allowed_by(&self.rules, &request.call);
        let response = next.run(request).await?;
        let response = match allowed {
            Some(rule) if !response.is_error => response.allowed_by(rule),
            _ => response,
        };
        // Substitutes for a result, such as a person's answer or a hook's reason, are shown unchanged.
        match tokens::limit(self.options.result_tokens).filter(|_| !is_bounded && !response.is_synthetic) {
            Some(limit) => {
                let artifacts = self.workspace.artifacts();
                let readers = self.readers(artifacts.results(), &cx);
                let store = evict::Store { artifacts, backend: &*self.workspace.kept_for(&cx), readers, cx: &cx };
                Ok(store.evict(response, limit).await)
            }
            None => Ok(response),
        }
    }
}

/// Records the thread in the state, if the backend records changes.
#[cfg(all(unix, feature = "undo"))]
fn begin(cx: &Context) -> Update {
    let Some(thread) = cx.thread() else { return Update::none() };
    // Changes of a background agent are undone with its conversation, whose thread name is what remains without the
    // path.
    let below = cx.path().iter().map(|part| format!("/{part}")).collect::<String>();
    let thread = thread.strip_suffix(&below).unwrap_or(thread);
    deepagents_fs::FileUndo::begin(cx.state(), thread, cx.run_id()).unwrap_or_default()
}

#[cfg(not(all(unix, feature = "undo")))]
fn begin(_: &Context) -> Update {
    Update::none()
}
