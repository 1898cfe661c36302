//! File tools: `ls`, `read_file`, `write_file`, `edit_file` or `apply_patch`, `delete`, `glob`, `grep` and, if the
//! [`Backend`] can run commands, `execute`.

mod background;
mod evict;
mod long;
mod patch;
mod render;
mod seen;
mod sessions;
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::error::Result;
use deepagents_core::middleware::{HookOutput, Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, Update};
use deepagents_core::tool::DynTool;
use deepagents_fs::permissions::Permissions;
use deepagents_fs::shell::SessionOptions;
use deepagents_fs::{Backend, StateBackend, VPath};
use serde::{Deserialize, Serialize};

use crate::channels::StoredResults;
use crate::description_override::DescriptionOverride;
use crate::permission_interrupts;
use crate::tokens;
use crate::workspace::Workspace;
use long::{LongMessages, Since};

pub(crate) use tools::NO_SESSION;

pub use background::BackgroundCommands;
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

/// Options of the file tools.
///
/// ```
/// use deepagents::middleware::filesystem::{FilesystemOptions, ReadFormat};
/// let reads_only = FilesystemOptions {
///     read_format: ReadFormat::Plain,
///     tools: Some(["ls", "read_file", "grep"].map(str::to_owned).to_vec()),
///     ..FilesystemOptions::default()
/// };
/// assert!(reads_only.read_before_edit);
/// ```
#[derive(Clone, Debug)]
pub struct FilesystemOptions {
    /// Refuse to change a file that the thread has neither read nor written, or that has changed since.
    pub read_before_edit: bool,
    /// How `read_file` formats text.
    pub read_format: ReadFormat,
    /// Approximate maximum number of tokens of a tool result. A larger one is moved to a file that can be read in
    /// parts, unless its tool [bounds](deepagents_core::tool::Tool::bounds_results) its own results; `read_file`
    /// returns fewer lines. `None` or zero for no limit.
    pub result_tokens: Option<usize>,
    /// Approximate maximum number of tokens of a result of `ls`, `glob` or `grep`. The rest is left out, because a
    /// narrower call is cheap. `None` or zero for no limit.
    pub listing_tokens: Option<usize>,
    /// Approximate number of tokens above which a person's message is moved to a file; `None` or zero for no limit.
    pub message_tokens: Option<usize>,
    /// The tool with which the model edits files; by default the one of its profile, otherwise `edit_file`.
    pub edit_tool: Option<EditTool>,
    /// The tools to offer; by default all that the backend supports, with the [edit tool](Self::edit_tool) chosen.
    pub tools: Option<Vec<String>>,
    /// Replacements for tool descriptions, by tool name.
    pub descriptions: BTreeMap<String, String>,
    /// Directories to which the file tools are restricted, also through links; unrestricted by default. Commands are
    /// not restricted.
    pub allowed_prefixes: Vec<VPath>,
    /// Whether `glob` and `grep` skip files that `.gitignore` names, unless a call says otherwise; `false` by default.
    pub respect_gitignore: bool,
    /// Maximum time limit of a command in seconds.
    pub max_execute_seconds: u64,
    /// Whether `execute` may start commands in the background, which adds the tools `command_output` and
    /// `stop_command`.
    pub background_commands: BackgroundCommands,
    /// Whether the commands of a run share one [shell session](deepagents_fs::shell::Shell::session), and how it
    /// starts. The directory, variables and background jobs (`&`) persist from one command to the next. The session
    /// ends with the run, or after it has been idle for as long as a command may run; the model is told when one starts
    /// and ends. Each agent of a run has its own.
    ///
    /// Cannot be combined with `background_commands`, nor with rules about commands, which judge each command as
    /// written.
    pub shell_session: Option<SessionOptions>,
    /// Maximum size in bytes of a picture, sound, video, document or other non-text file that `read_file` attaches.
    pub max_media_bytes: u64,
}

impl Default for FilesystemOptions {
    fn default() -> Self {
        Self {
            read_before_edit: true,
            read_format: ReadFormat::Numbered,
            result_tokens: Some(20_000),
            listing_tokens: Some(20_000),
            message_tokens: Some(50_000),
            edit_tool: None,
            tools: None,
            descriptions: BTreeMap::new(),
            allowed_prefixes: Vec::new(),
            respect_gitignore: false,
            max_execute_seconds: 3_600,
            background_commands: BackgroundCommands::Off,
            shell_session: None,
            max_media_bytes: 10 << 20,
        }
    }
}

/// The tool with which a model edits files.
///
/// ```
/// use deepagents::profile::ProfileConfig;
/// let config: ProfileConfig = serde_json::from_str(r#"{"edit_tool": "apply_patch"}"#)?;
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EditTool {
    /// `edit_file`: replaces one text with another.
    #[default]
    EditFile,
    /// `apply_patch`: applies a [`Patch`] to several files, in the format that OpenAI's models are trained on.
    ApplyPatch,
    /// Both.
    Both,
}

impl EditTool {
    /// Returns `true` if a tool is left out.
    fn leaves_out(self, tool: &str) -> bool {
        match tool {
            "edit_file" => self == Self::ApplyPatch,
            "apply_patch" => self == Self::EditFile,
            _ => false,
        }
    }
}

/// All file tools.
pub(crate) const TOOLS: [&str; 11] = [
    "ls",
    "read_file",
    "write_file",
    "edit_file",
    "apply_patch",
    "delete",
    "glob",
    "grep",
    "execute",
    "command_output",
    "stop_command",
];

/// Those that require a shell.
const COMMANDS: [&str; 3] = ["execute", "command_output", "stop_command"];

impl FilesystemOptions {
    /// Rejects names that are not those of file tools.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let mut named = self.tools.iter().flatten().chain(self.descriptions.keys());
        named.find(|name| !TOOLS.contains(&name.as_str())).map_or(Ok(()), |name| {
            Err(BuildError::Option(format!("there is no file tool `{name}`; there are {}", TOOLS.join(", "))))
        })
    }
}

/// How `read_file` formats text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadFormat {
    /// Each line after its line number, right-aligned to six columns, and a tab; notes in brackets at the end.
    #[default]
    Numbered,
    /// Unchanged text under a header `@@ lines 1-9 of 20 | next offset 9 @@`.
    Plain,
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
        self.options = options;
        self
    }

    /// Moves long messages of a person to files.
    async fn store_messages(&self, since: Since, cx: &Context) -> Update {
        match tokens::limit(self.options.message_tokens) {
            Some(limit) => long::store(limit, since, &self.workspace, cx).await,
            None => Update::none(),
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
        let edit = self.options.edit_tool.unwrap_or_default();
        let wanted = |name: &str| match &self.options.tools {
            Some(tools) => tools.iter().any(|tool| tool == name),
            None => !edit.leaves_out(name),
        };
        let tools = tools.into_iter().filter(|tool| wanted(&tool.spec().name));
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
        if self.workspace.backend_for(cx).shell().is_none() {
            request.tools.retain(|tool| !COMMANDS.contains(&tool.name.as_str()));
        }
        Ok(long::shorten(request, cx))
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
            Some(limit) => Ok(evict::evict(response, limit, &*self.workspace.kept_for(&cx), &cx).await),
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
