//! Memory: notes in files, such as `AGENTS.md`, that are included in every request.

mod load;
mod render;

use deepagents_core::agent::BuildError;
use deepagents_core::error::Result;
use deepagents_core::event::{LoadedFile, MiddlewareEvent};
use deepagents_core::middleware::{HookOutput, Middleware};
use deepagents_core::model::{ModelRequest, SystemBlock};
use deepagents_core::run::Context;
use deepagents_core::state::ChannelSpec;
use deepagents_fs::{Backend, VPath};

use crate::channels::{MemoryContents, MemoryFile};
use crate::workspace::Workspace;

/// The placeholder for the notes in a template.
const PLACEHOLDER: &str = "{agent_memory}";

/// Adds memory files to the system prompt, in order, after its static part.
///
/// The files are read at the start of a run, and again in a later run of the thread if their version has changed; the
/// conversation already contains what the agent itself writes to them. A missing file is not an error. An unreadable
/// file is reported, to the model in its place and to the application with the event `memory_loaded`, and the run
/// continues. HTML comments are removed.
///
/// ```
/// use deepagents::middleware::Memory;
/// use deepagents_fs::StateBackend;
/// let memory = Memory::new(StateBackend::new(), ["/AGENTS.md", "/team/AGENTS.md"])?.max_file_chars(8_000);
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Memory {
    workspace: Workspace,
    paths: Vec<VPath>,
    max_file_chars: usize,
    max_total_chars: usize,
    template: Option<String>,
}

impl Memory {
    /// Uses these files of a backend.
    ///
    /// # Errors
    /// Returns an error if a path is invalid.
    pub fn new<P: AsRef<str>>(backend: impl Backend, paths: impl IntoIterator<Item = P>) -> Result<Self, BuildError> {
        Self::on(Workspace::one(backend), paths)
    }

    pub(crate) fn on<P: AsRef<str>>(
        workspace: Workspace,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Self, BuildError> {
        let mut known = Vec::new();
        for path in paths {
            let path = VPath::parse(path.as_ref())
                .map_err(|error| BuildError::Option(format!("a memory file cannot have this path: {error}")))?;
            if !known.contains(&path) {
                known.push(path);
            }
        }
        Ok(Self { workspace, paths: known, max_file_chars: 32_000, max_total_chars: 64_000, template: None })
    }

    crate::shared::setters! {
        /// Sets the maximum number of characters per file; 32 000 by default. A longer file is truncated at the end of
        /// a line, with a note that says where the rest is.
        max_file_chars(chars: usize) => max_file_chars = chars;

        /// Sets the maximum number of characters of all files together; 64 000 by default. Earlier files take
        /// precedence.
        max_total_chars(chars: usize) => max_total_chars = chars;
    }

    /// Sets the text around the notes; `{agent_memory}` stands for them. With an empty template, the files are loaded
    /// but not shown.
    ///
    /// # Errors
    /// Returns an error if the template lacks the placeholder.
    pub fn template(mut self, template: impl Into<String>) -> Result<Self, BuildError> {
        let template = template.into();
        if !template.is_empty() && !template.contains(PLACEHOLDER) {
            return Err(BuildError::Option(format!("the memory template does not contain `{PLACEHOLDER}`")));
        }
        self.template = Some(template);
        Ok(self)
    }

    /// Returns the memory section of the system prompt.
    fn section(&self, files: &std::collections::BTreeMap<VPath, MemoryFile>, can_write: bool) -> Option<String> {
        let notes = render::notes(&self.paths, files, self.max_total_chars);
        match self.template.as_deref() {
            Some("") => None,
            Some(template) => Some(template.replace(PLACEHOLDER, &notes)),
            None => {
                let mut out = include_str!("../../prompts/memory.md").trim_end().replace(PLACEHOLDER, &notes);
                if can_write {
                    out.push_str("\n\n");
                    out.push_str(include_str!("../../prompts/memory_update.md").trim_end());
                }
                Some(out)
            }
        }
    }
}

impl Middleware for Memory {
    fn name(&self) -> &str {
        "Memory"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        self.workspace.channels().into_iter().chain([ChannelSpec::new::<MemoryContents>()]).collect()
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        let known = cx.get::<MemoryContents>();
        let backend = self.workspace.backend_for(cx);
        let found = load::all(&*backend, cx.state(), &self.paths, &known, self.max_file_chars).await;
        let changes = load::changes(known, found);
        if changes.is_empty() {
            return Ok(HookOutput::next());
        }
        let files = changes
            .iter()
            .map(|(path, file)| match file {
                None => LoadedFile::Missing { path: path.to_string(), missing: true },
                Some(MemoryFile { problem: Some(problem), .. }) => {
                    LoadedFile::Unreadable { path: path.to_string(), problem: problem.clone() }
                }
                Some(file) => {
                    LoadedFile::Read { path: path.to_string(), chars: file.text.chars().count(), cut: file.cut }
                }
            })
            .collect();
        cx.report(MiddlewareEvent::MemoryLoaded { files });
        Ok(HookOutput::set::<MemoryContents>(changes))
    }

    async fn modify_request(&self, mut request: ModelRequest, cx: &Context) -> Result<ModelRequest> {
        let none = std::collections::BTreeMap::new();
        let files = cx.state().get::<MemoryContents>().unwrap_or(&none);
        let names = cx.tool_names();
        let writes = |name: &str| matches!(name, "edit_file" | "write_file" | "apply_patch") && names.contains(&name);
        let can_write = request.tools.iter().any(|tool| writes(&tool.name));
        request.system.extend(self.section(files, can_write).map(SystemBlock::new));
        Ok(request)
    }
}
