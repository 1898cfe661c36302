//! Options of the file tools, and which tools there are.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use deepagents_core::agent::BuildError;
use deepagents_fs::shell::SessionOptions;
use deepagents_fs::{Capabilities, VPath};
use serde::{Deserialize, Serialize};

use super::BackgroundCommands;
use crate::artifacts::Artifacts;

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
    /// The directory below which the harness keeps large results (`large_tool_results`) and the history of the
    /// conversation (`conversation_history`); `/` by default. A `Summarization` made outside the builder uses `/`.
    pub artifacts_root: VPath,
    /// Maximum number of matches of a `grep` call that does not say; 1,000 by default, `None` for no limit.
    pub grep_matches: Option<NonZeroUsize>,
    /// Whether `glob` and `grep` skip files that `.gitignore` names, unless a call says otherwise; `false` by default.
    pub respect_gitignore: bool,
    /// Maximum time limit of a command in seconds, more than zero.
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
    /// Maximum size in bytes of a picture, sound, video, document or other non-text file that `read_file` attaches. A
    /// picture may have 5 MiB at most, because providers refuse larger ones.
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
            artifacts_root: VPath::root(),
            grep_matches: NonZeroUsize::new(1_000),
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
    /// `apply_patch`: applies a [`Patch`](super::Patch) to several files, in the format that OpenAI's models are trained
    /// on.
    ApplyPatch,
    /// Both.
    Both,
}

impl EditTool {
    /// Returns `true` if a tool is left out.
    pub(super) fn leaves_out(self, tool: &str) -> bool {
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

/// Those that change files.
const WRITERS: [&str; 3] = ["write_file", "edit_file", "apply_patch"];

/// Returns `true` unless a tool is a file tool that cannot do its work.
pub(super) fn works(name: &str, has_shell: bool, can: Capabilities) -> bool {
    (has_shell || !COMMANDS.contains(&name))
        && (can.write || !WRITERS.contains(&name))
        && (can.delete || name != "delete")
}

impl FilesystemOptions {
    /// Rejects names that are not those of file tools, and values with which nothing would work.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if self.max_execute_seconds == 0 {
            return Err(BuildError::Option("max_execute_seconds must be more than 0".to_owned()));
        }
        Artifacts::below(&self.artifacts_root)
            .map_err(|error| BuildError::Option(format!("artifacts_root cannot be used: {error}")))?;
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
