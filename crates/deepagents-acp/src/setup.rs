//! What the agent of a session is to be.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use deepagents::core::interrupt::DecisionKind;
use deepagents::core::journal::Journal;
use deepagents::core::message::ToolCall;
use deepagents::core::tool::DynTool;
use deepagents::fs::Backend;
use deepagents::fs::shell::{Shell, WithShell};
use deepagents::middleware::AskUser;
use deepagents::{Context, DeepAgentBuilder, Effect, InterruptOn, InterruptPolicy};

use crate::editor::{Editor, EditorCalls, EditorFiles, SessionShell};
use crate::host::McpServer;
use crate::policy::{ASKED, Mode, Policy, PolicyDecision};

/// Tools that change something outside of the conversation.
const GATED: [&str; 5] = ["write_file", "edit_file", "apply_patch", "delete", "execute"];

/// What the agent of a session is to be: its directory, its model, and the editor's part in it.
#[derive(Clone)]
pub struct SessionSetup {
    pub(crate) opening: u64,
    pub(crate) cwd: PathBuf,
    pub(crate) model: String,
    pub(crate) effort: Option<String>,
    pub(crate) mcp_servers: Vec<McpServer>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) editor: Editor,
    /// Set once the files are known.
    pub(crate) workspace: Arc<OnceLock<Arc<dyn Backend>>>,
}

/// A shell of the host's own.
#[derive(Clone)]
pub struct OwnShell {
    /// The shell.
    pub shell: Arc<dyn Shell>,
    /// Whether what it runs is held in by a sandbox: only then are commands run without asking.
    pub sandboxed: bool,
}

/// Tools that change something: names, and beginnings of names.
pub(crate) struct Gated(Vec<String>);

impl Gated {
    /// Whether a call changes something. Of tools that are meant by the beginning of their names, those that only read do
    /// not.
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
    /// The thread of the session.
    pub fn thread(&self) -> &str {
        &self.editor.session().0
    }

    /// A number of its own for each time that a session is opened. It stays the same when the session chooses another model,
    /// and is another one when the thread is loaded again, which may be while the session before still ends.
    pub fn opening(&self) -> u64 {
        self.opening
    }

    /// The directory of the session, absolute.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The model, one of [`AgentHost::models`](crate::AgentHost::models).
    pub fn model(&self) -> &str {
        &self.model
    }

    /// How hard the model is to think, one of the model's efforts; nothing leaves it to the model.
    pub fn effort(&self) -> Option<&str> {
        self.effort.as_deref()
    }

    /// The mode that the session is in now.
    pub fn mode(&self) -> Mode {
        self.policy.mode()
    }

    /// The MCP servers that the editor brings, of the kinds that [`AgentHost::mcp`](crate::AgentHost::mcp) allows.
    pub fn mcp_servers(&self) -> &[McpServer] {
        &self.mcp_servers
    }

    /// Whether the editor shows forms, so that the person can be asked for more than a yes or no.
    pub fn has_forms(&self) -> bool {
        self.editor.has_forms()
    }

    /// The files of the directory as the person sees them, and commands in the editor's terminal or in a shell of the
    /// host's own. Where there is neither terminal nor shell, the agent runs no commands.
    pub fn workspace(&self, files: Arc<dyn Backend>, own: Option<OwnShell>) -> Arc<dyn Backend> {
        let files: Arc<dyn Backend> = Arc::new(EditorFiles::new(files, self.editor.clone(), self.cwd.clone()));
        self.policy.set_sandboxed(own.as_ref().is_some_and(|own| own.sandboxed));
        let own = own.map(|own| own.shell);
        if own.is_none() && !self.editor.has_terminals() {
            return files;
        }
        let (editor, policy, root) = (self.editor.clone(), self.policy.clone(), self.cwd.clone());
        Arc::new(WithShell::new(files, SessionShell { editor, own, policy, root }))
    }

    /// The agent with the session's part: its threads, its questions, and what ties calls to the editor. The tools that a
    /// person is asked about are those that write, delete and run. Where the editor shows forms, the agent can ask the
    /// person with [`AskUser`], which the host does not add.
    pub fn equip(&self, builder: DeepAgentBuilder, journal: Arc<dyn Journal>) -> DeepAgentBuilder {
        self.equip_with(builder, journal, [])
    }

    /// The same with more tools that a person is asked about: names, and beginnings of names with a `*` behind them, of
    /// which those are meant that do not only [read](deepagents::Effect::Read).
    pub fn equip_with<'a>(
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
        if self.editor.has_forms() { builder.middleware(AskUser) } else { builder }
    }
}
