//! The interface between an application and its sessions.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use deepagents::DeepAgent;
use deepagents::core::journal::{Journal, ThreadInfo};
use deepagents::core::model::Price;
use deepagents::fs::Backend;
use deepagents::middleware::hooks::HookRunner;
use deepagents::models::catalogue::Catalogue;
use deepagents::remembered::{CommandReach, RememberedRules, RuleScope};
use serde_json::{Map, Value};

use crate::policy::Mode;
use crate::setup::SessionSetup;

/// The application behind an editor's sessions.
///
/// See the [crate](crate) documentation for an example.
pub trait AgentHost: Send + Sync + 'static {
    /// Returns the journal that stores threads. Each session is a thread.
    fn journal(&self) -> Arc<dyn Journal>;

    /// Returns the models that a session may choose from, the default first. Must not be empty.
    fn models(&self) -> Vec<ModelOption>;

    /// Creates the ID of a new thread. Nothing is stored before the session is prompted.
    fn new_thread(&self) -> impl Future<Output = Result<String, HostError>> + Send;

    /// Builds the agent of a session. Must use [`SessionSetup::equip`], and files wrapped by
    /// [`SessionSetup::workspace`]. Called again when the session's model or effort changes.
    fn build(&self, setup: &SessionSetup) -> impl Future<Output = Result<SessionAgent, HostError>> + Send;

    /// Returns metadata to store with the thread at each prompt, in addition to `root`, `cwd`, `title` and `effort`.
    fn metadata(&self, _setup: &SessionSetup) -> Map<String, Value> {
        Map::new()
    }

    /// Returns which of the editor's MCP servers the host supports. A session with other servers is refused.
    fn mcp(&self) -> McpSupport {
        McpSupport::default()
    }

    /// Returns the model that last ran a thread, as stored by [`metadata`](Self::metadata). A session that loads the
    /// thread continues with it if it is still one of [`models`](Self::models).
    fn model_of(&self, _thread: &ThreadInfo) -> Option<String> {
        None
    }

    /// Returns the mode in which a thread was last used, as stored by [`metadata`](Self::metadata). A session that
    /// loads the thread starts in [`Mode::Plan`] if it was that mode, and in [`Mode::Ask`] otherwise: a person must
    /// choose a less restrictive mode each time.
    fn mode_of(&self, _thread: &ThreadInfo) -> Option<Mode> {
        None
    }

    /// Releases the resources of an [instance](SessionSetup::instance_id) of a session other than its thread, such as
    /// child processes. Called when the session closes or could not be opened, and when the editor disconnects.
    fn closed(&self, _setup: &SessionSetup) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Deletes a thread and everything that belongs to it.
    fn delete(&self, thread: &str) -> impl Future<Output = Result<(), HostError>> + Send {
        let (journal, thread) = (self.journal(), thread.to_owned());
        async move { journal.threads().delete(&thread).await.map(drop).map_err(HostError::failed) }
    }

    /// Returns the name and version reported to the editor.
    fn version(&self) -> (String, String) {
        ("deepagents".to_owned(), env!("CARGO_PKG_VERSION").to_owned())
    }
}

/// Why a host refused or failed to do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The editor's request is invalid, for example because a directory does not exist.
    #[error("{0}")]
    Invalid(String),
    /// The operation failed.
    #[error("{0}")]
    Failed(String),
}

impl HostError {
    /// Creates an [`Invalid`](Self::Invalid) error.
    #[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
    pub fn invalid(why: impl ToString) -> Self {
        Self::Invalid(why.to_string())
    }

    /// Creates a [`Failed`](Self::Failed) error.
    #[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
    pub fn failed(why: impl ToString) -> Self {
        Self::Failed(why.to_string())
    }
}

/// A model that a session may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelOption {
    /// The name that [`SessionSetup::model`] returns, such as `anthropic:claude-sonnet-4-5`.
    pub name: String,
    /// The reasoning efforts, from low to high. Empty if the effort cannot be set.
    pub efforts: Vec<String>,
}

impl ModelOption {
    /// Creates an option for a model without efforts.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), efforts: Vec::new() }
    }
}

/// The agent of a session, with what the editor shows and asks about it.
#[derive(Clone)]
#[non_exhaustive]
pub struct SessionAgent {
    /// The agent.
    pub agent: DeepAgent,
    /// Its files. They are read for the previous content of a file before it is written.
    pub workspace: Arc<dyn Backend>,
    /// Slash commands, in addition to those for the modes.
    pub commands: Vec<SlashCommand>,
    /// The context window of the model in tokens, if known.
    pub context_window: Option<u64>,
    /// The price of the model's tokens, if known.
    pub price: Option<Price>,
    /// The prices of other models, such as those of sub-agents. `None` means the built-in catalogue.
    pub catalogue: Option<Arc<Catalogue>>,
    /// Hooks that run before a person is asked and when a session ends. Hooks of runs belong to the agent.
    pub hooks: Option<HookRunner>,
    /// The remembered approval rules of the session's directory, and the scope in which new ones are stored.
    pub rules: Option<(RememberedRules, RuleScope)>,
    /// What commands can reach.
    pub reach: CommandReach,
    /// Whether commands share a shell. If so, the meaning of a command depends on earlier ones, so no remembered rule
    /// applies to it.
    pub shares_shell: bool,
}

impl SessionAgent {
    /// Creates a session agent from an agent and its files.
    pub fn new(agent: DeepAgent, workspace: Arc<dyn Backend>) -> Self {
        Self {
            agent,
            workspace,
            commands: Vec::new(),
            context_window: None,
            price: None,
            catalogue: None,
            hooks: None,
            rules: None,
            reach: CommandReach::default(),
            shares_shell: false,
        }
    }
}

impl fmt::Debug for SessionAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionAgent").field("agent", &self.agent).finish_non_exhaustive()
    }
}

/// A slash command, which stands for a prepared prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlashCommand {
    /// Its name, without slash or spaces.
    pub name: String,
    /// What it does.
    pub description: String,
    /// A hint for its arguments, if it takes any.
    pub hint: Option<String>,
    /// The prompt, in which [`slash::message`](deepagents::slash::message) inserts the arguments.
    pub prompt: String,
}

/// The kinds of MCP servers that a host supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct McpSupport {
    /// Child processes. ACP requires every agent to support these.
    pub stdio: bool,
    /// Streamable HTTP.
    pub http: bool,
    /// HTTP with server-sent events, the older transport.
    pub sse: bool,
}

/// An MCP server that an editor provides for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServer {
    /// Name of the server.
    pub name: String,
    /// How to reach it.
    pub transport: McpTransport,
}

/// How to reach an MCP server. `Debug` hides the values of variables and headers, which may be secrets.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpTransport {
    /// A process to start.
    Stdio {
        /// The program.
        command: PathBuf,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment variables.
        env: BTreeMap<String, String>,
    },
    /// Streamable HTTP.
    Http {
        /// The URL.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, String)>,
    },
    /// HTTP with server-sent events.
    Sse {
        /// The URL.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, String)>,
    },
}

impl fmt::Debug for McpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env } => {
                f.debug_struct("Stdio").field("command", command).field("args", args).field("env", &env.keys()).finish()
            }
            Self::Http { url, .. } => f.debug_struct("Http").field("url", url).finish_non_exhaustive(),
            Self::Sse { url, .. } => f.debug_struct("Sse").field("url", url).finish_non_exhaustive(),
        }
    }
}
