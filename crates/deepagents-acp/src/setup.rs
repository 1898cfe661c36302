//! The setup of a session's agent.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use deepagents::core::interrupt::DecisionKind;
use deepagents::core::journal::Journal;
use deepagents::core::message::ToolCall;
use deepagents::core::tool::DynTool;
use deepagents::fs::shell::{Shell, WithShell};
use deepagents::fs::{Backend, HostDirectory};
use deepagents::middleware::{AskUser, Rubric};
use deepagents::{Context, DeepAgentBuilder, Effect, InterruptOn, InterruptPolicy};

use crate::editor::{Editor, EditorCalls, EditorFiles, SessionShell};
use crate::host::McpServer;
use crate::policy::{ASKED, Mode, Policy, PolicyDecision};

/// Tools with side effects outside the conversation.
const GATED: [&str; 5] = ["write_file", "edit_file", "apply_patch", "delete", "execute"];

/// The setup of a session's agent: its directory, its model, and its connection to the editor.
#[derive(Clone)]
pub struct SessionSetup {
    pub(crate) instance_id: u64,
    pub(crate) cwd: PathBuf,
    pub(crate) model: String,
    pub(crate) effort: Option<String>,
    pub(crate) mcp_servers: Vec<McpServer>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) editor: Editor,
    /// `None` if it could not be opened.
    pub(crate) directory: Option<HostDirectory>,
    /// Set once the files are known.
    pub(crate) workspace: Arc<OnceLock<Arc<dyn Backend>>>,
}

/// The host's own shell.
#[derive(Clone)]
pub struct OwnShell {
    /// The shell.
    pub shell: Arc<dyn Shell>,
    /// Whether commands run in a sandbox. If not, each requires approval.
    pub sandboxed: bool,
}

/// Names and, with a trailing `*`, name prefixes of tools with side effects.
pub(crate) struct Gated(Vec<String>);

impl Gated {
    /// Whether a call has side effects. A tool matched by prefix is exempt if it only reads.
    pub(crate) fn has(&self, call: &ToolCall, tool: Option<&Arc<dyn DynTool>>) -> bool {
        let reads = || tool.is_some_and(|tool| tool.effect(&call.args) == Effect::Read);
        self.0.iter().any(|gated| match gated.strip_suffix('*') {
            Some(beginning) => call.name.starts_with(beginning) && !reads(),
            None => *gated == call.name,
        })
    }
}

impl fmt::Debug for OwnShell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnShell").field("sandboxed", &self.sandboxed).finish_non_exhaustive()
    }
}

impl fmt::Debug for SessionSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionSetup")
            .field("cwd", &self.cwd)
            .field("model", &self.model)
            .field("effort", &self.effort)
            .field("mcp_servers", &self.mcp_servers)
            .finish_non_exhaustive()
    }
}

impl SessionSetup {
    /// Returns the thread ID of the session.
    pub fn thread(&self) -> &str {
        &self.editor.session().0
    }

    /// Returns an ID that is unique in this process. It stays the same when the session changes its model. It differs
    /// when the thread is loaded again, which may happen while the previous session is still closing.
    pub fn instance_id(&self) -> u64 {
        self.instance_id
    }

    /// Returns the absolute directory of the session.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns the model, one of [`AgentHost::models`](crate::AgentHost::models).
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns the reasoning effort, one of the model's efforts. `None` leaves the choice to the model.
    pub fn effort(&self) -> Option<&str> {
        self.effort.as_deref()
    }

    /// Returns the current mode of the session.
    pub fn mode(&self) -> Mode {
        self.policy.mode()
    }

    /// Returns the MCP servers that the editor provides, of the kinds supported by
    /// [`AgentHost::mcp`](crate::AgentHost::mcp).
    pub fn mcp_servers(&self) -> &[McpServer] {
        &self.mcp_servers
    }

    /// Whether the editor supports forms, so that a person can be asked for more than yes or no.
    pub fn has_forms(&self) -> bool {
        self.editor.has_forms()
    }

    /// Wraps the files of the directory, so that they include the person's unsaved changes, and adds commands that run
    /// in the editor's terminal or the host's `own` shell. If there is neither, the agent cannot run commands.
    ///
    /// The editor opens files by path, so it is not asked for any while a command runs; see
    /// [`exclusive`](Self::exclusive) for commands that run elsewhere.
    pub fn workspace(&self, files: Arc<dyn Backend>, own: Option<OwnShell>) -> Arc<dyn Backend> {
        let (editor, root, directory) = (self.editor.clone(), self.cwd.clone(), self.directory.clone());
        let files: Arc<dyn Backend> = Arc::new(EditorFiles::new(files, editor, root, directory));
        self.policy.set_sandboxed(own.as_ref().is_some_and(|own| own.sandboxed));
        let own = own.map(|own| match &self.directory {
            Some(directory) => directory.shell(own.shell),
            None => own.shell,
        });
        if own.is_none() && !self.editor.has_terminals() {
            return files;
        }
        let (editor, policy, root) = (self.editor.clone(), self.policy.clone(), self.cwd.clone());
        let directory = self.directory.clone();
        Arc::new(WithShell::new(files, SessionShell { editor, own, policy, root, directory }))
    }

    /// Wraps a shell whose commands may change files of the directory, such as that of hooks. They start when the editor
    /// has answered the requests made before, and while they run, it is not asked to open files there, because a command
    /// could lead it outside. [`workspace`](Self::workspace) does this itself for the shell that it is given.
    pub fn exclusive(&self, shell: Arc<dyn Shell>) -> Arc<dyn Shell> {
        match &self.directory {
            Some(directory) => directory.waiting_shell(shell),
            None => shell,
        }
    }

    /// Adds the session's journal, approvals and editor middleware to an agent. A person is asked about tools that
    /// write, delete and run commands, and about those in `gated`: names, or prefixes with a trailing `*`. A prefix
    /// does not match tools that only [read](deepagents::Effect::Read). This also adds [`Rubric`], which judges the work
    /// by the goal of `/goal`, and if the editor supports forms [`AskUser`]. The host must not add them itself.
    pub fn equip<'a>(
        &self,
        builder: DeepAgentBuilder,
        journal: Arc<dyn Journal>,
        gated: impl IntoIterator<Item = &'a str>,
    ) -> DeepAgentBuilder {
        let gated = Arc::new(Gated(GATED.into_iter().chain(gated).map(str::to_owned).collect()));
        let allowed = [DecisionKind::Approve, DecisionKind::Reject];
        let approvals = gated.0.iter().fold(InterruptPolicy::new(), |all, tool| {
            let (policy, gated) = (self.policy.clone(), gated.clone());
            let when = move |call: &ToolCall, cx: &Context| {
                gated.has(call, cx.tool(&call.name)) && policy.decide(&call.name) == PolicyDecision::Ask
            };
            all.before(tool.as_str(), InterruptOn::only(allowed).when(when).rule(ASKED))
        });
        let calls = EditorCalls { policy: self.policy.clone(), gated, workspace: self.workspace.clone() };
        let builder = builder.journal(journal).interrupt_on(approvals).shared_middleware(calls);
        let builder = builder.middleware(Rubric::default());
        if self.editor.has_forms() { builder.middleware(AskUser) } else { builder }
    }
}
