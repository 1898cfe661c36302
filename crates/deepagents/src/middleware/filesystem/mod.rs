//! Files: the tools `ls`, `read_file`, `write_file`, `edit_file` or `apply_patch`, `delete`, `glob`, `grep` and, where the
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

/// Gives the agent files.
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
    /// The rules whose decisions are noted; the workspace enforces them.
    rules: Permissions,
}

/// How the file tools behave.
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
    /// Refuse to change a file that the thread has neither read nor written, or that changed since.
    pub read_before_edit: bool,
    /// How `read_file` shows text.
    pub read_format: ReadFormat,
    /// About how many tokens a result of any tool may have; a larger one goes to a file, where it can be read in parts,
    /// unless its tool [bounds](deepagents_core::tool::Tool::bounds_results) its results itself. `read_file` shows fewer
    /// lines. `None` or zero for no limit.
    pub result_tokens: Option<usize>,
    /// About how many tokens a result of `ls`, `glob` or `grep` may have; the rest is left out, as asking again for less is
    /// cheap. `None` or zero for no limit.
    pub listing_tokens: Option<usize>,
    /// About how many tokens a person's message may have before it goes to a file; `None` or zero for no limit.
    pub message_tokens: Option<usize>,
    /// How the model edits files: what its profile says, and otherwise `edit_file`.
    pub edit_tool: Option<EditTool>,
    /// The tools to offer; by default all that the backend allows, of those that edit the [one](Self::edit_tool) chosen.
    pub tools: Option<Vec<String>>,
    /// Other descriptions for some tools, by name.
    pub descriptions: BTreeMap<String, String>,
    /// Directories that the file tools reach, also through links; everything by default. Commands are not bound by it.
    pub allowed_prefixes: Vec<VPath>,
    /// Whether `glob` and `grep` leave out what `.gitignore` files name where a call does not say; they do not by default.
    pub respect_gitignore: bool,
    /// Seconds that a command may be given.
    pub max_execute_seconds: u64,
    /// Whether `execute` may start commands that go on while the agent does other things, which adds the tools
    /// `command_output` and `stop_command`.
    pub background_commands: BackgroundCommands,
    /// Whether the commands of a run share one [shell](deepagents_fs::shell::Shell::session), and how that begins: the
    /// directory, variables and what runs in the background (`&`) stay from one command to the next. It ends with the run, and
    /// when it was not used for as long as a command may run; the model is told when one begins and ends. Each agent of a run
    /// has its own. There are no `background_commands` beside it, and no rules about commands, which judge what is written.
    pub shell_session: Option<SessionOptions>,
    /// Bytes of a picture, sound, video, document or other file that is not text, which `read_file` attaches.
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
    /// `edit_file`: a text in the place of another one.
    #[default]
    EditFile,
    /// `apply_patch`: a [`Patch`] of several files, in the format that OpenAI's models are trained on.
    ApplyPatch,
    /// Both.
    Both,
}

impl EditTool {
    /// Whether a tool is left out.
    fn leaves_out(self, tool: &str) -> bool {
        match tool {
            "edit_file" => self == Self::ApplyPatch,
            "apply_patch" => self == Self::EditFile,
            _ => false,
        }
    }
}

/// The tools there are.
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

/// Those that need a shell.
const COMMANDS: [&str; 3] = ["execute", "command_output", "stop_command"];

impl FilesystemOptions {
    /// Refuses names that are not those of file tools.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let mut named = self.tools.iter().flatten().chain(self.descriptions.keys());
        named.find(|name| !TOOLS.contains(&name.as_str())).map_or(Ok(()), |name| {
            Err(BuildError::Option(format!("there is no file tool `{name}`; there are {}", TOOLS.join(", "))))
        })
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

    /// Notes what these rules allow, which the workspace enforces.
    pub(crate) fn noting(mut self, rules: Permissions) -> Self {
        self.rules = rules;
        self
    }

    /// Sets how the tools behave.
    #[must_use]
    pub fn options(mut self, options: FilesystemOptions) -> Self {
        self.options = options;
        self
    }
}

impl Filesystem {
    /// Puts long messages of people into files.
    async fn store_messages(&self, since: Since, cx: &Context) -> Update {
        match tokens::limit(self.options.message_tokens) {
            Some(limit) => long::store(limit, since, &self.workspace, cx).await,
            None => Update::none(),
        }
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
        // A run that goes on with what a copied thread left unfinished has no other beginning.
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
        // What stands in for a result, such as a person's answer or a hook's reason, is shown as it was said.
        match self.budget().filter(|_| !is_bounded && !response.is_synthetic) {
            Some(limit) => Ok(evict::evict(response, limit, &*self.workspace.kept_for(&cx), &cx).await),
            None => Ok(response),
        }
    }
}

/// Tells the state which thread it is of, where the backend records what is changed.
#[cfg(all(unix, feature = "undo"))]
fn begin(cx: &Context) -> Update {
    let Some(thread) = cx.thread() else { return Update::none() };
    // What an agent in the background changes goes back with its conversation, whose thread has the name that is left.
    let below = cx.path().iter().map(|part| format!("/{part}")).collect::<String>();
    let thread = thread.strip_suffix(&below).unwrap_or(thread);
    deepagents_fs::FileUndo::begin(cx.state(), thread, cx.run_id()).unwrap_or_default()
}

#[cfg(not(all(unix, feature = "undo")))]
fn begin(_: &Context) -> Update {
    Update::none()
}
