//! What an application says and does for its sessions.

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
use deepagents::remembered::{CommandReach, RememberedRules, RuleScope};
use serde_json::{Map, Value};

use crate::policy::Mode;
use crate::setup::SessionSetup;

/// The application behind the sessions of an editor.
///
/// The example of the [crate](crate) has a small one.
pub trait AgentHost: Send + Sync + 'static {
    /// Where threads are kept; a session is one of them.
    fn journal(&self) -> Arc<dyn Journal>;

    /// The models that a session may choose from, the usual one first; at least one.
    fn models(&self) -> Vec<ModelOption>;

    /// Makes the id of a thread that does not exist yet. Nothing is stored before the session is prompted.
    fn new_thread(&self) -> impl Future<Output = Result<String, HostError>> + Send;

    /// Builds the agent of a session: with [`SessionSetup::equip`], and on files that went through
    /// [`SessionSetup::workspace`]. Called again when the session's model or effort changes.
    fn build(&self, setup: &SessionSetup) -> impl Future<Output = Result<SessionAgent, HostError>> + Send;

    /// What a thread is to say of itself beside `root`, `cwd`, `title` and `effort`, each time it is prompted.
    fn metadata(&self, _setup: &SessionSetup) -> Map<String, Value> {
        Map::new()
    }

    /// Which MCP servers of an editor the host can use. A session with others is refused.
    fn mcp(&self) -> McpSupport {
        McpSupport::default()
    }

    /// The model that a thread was run with last, as [`metadata`](Self::metadata) noted it. A session that loads the thread
    /// goes on with it, if it is one of [`models`](Self::models).
    fn model_of(&self, _thread: &ThreadInfo) -> Option<String> {
        None
    }

    /// The mode that a thread was worked on in last, as [`metadata`](Self::metadata) noted it. A session that loads the thread
    /// begins in [`Mode::Plan`] if it was that one, and in [`Mode::Ask`] otherwise: what asks less a person chooses each time.
    fn mode_of(&self, _thread: &ThreadInfo) -> Option<Mode> {
        None
    }

    /// Gives up what the host has of an [opening](SessionSetup::opening) of a session beside its thread, such as processes:
    /// the session is closed or could not be opened, or the editor is gone.
    fn closed(&self, _setup: &SessionSetup) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Deletes a thread with what belongs to it.
    fn delete(&self, thread: &str) -> impl Future<Output = Result<(), HostError>> + Send {
        let (journal, thread) = (self.journal(), thread.to_owned());
        async move { journal.threads().delete(&thread).await.map(drop).map_err(HostError::failed) }
    }

    /// The name and version that the editor is told.
    fn version(&self) -> (String, String) {
        ("deepagents".to_owned(), env!("CARGO_PKG_VERSION").to_owned())
    }
}

/// Why a host did not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// What the editor asked for cannot be, such as a directory that is not there.
    #[error("{0}")]
    Invalid(String),
    /// It went wrong.
    #[error("{0}")]
    Failed(String),
}

impl HostError {
    /// What the editor asked for cannot be.
    #[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
    pub fn invalid(why: impl ToString) -> Self {
        Self::Invalid(why.to_string())
    }

    /// It went wrong.
    #[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
    pub fn failed(why: impl ToString) -> Self {
        Self::Failed(why.to_string())
    }
}

/// A model that a session may use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelOption {
    /// The name that [`SessionSetup::model`] gives, such as `anthropic:claude-sonnet-4-5`.
    pub name: String,
    /// How hard it can be made to think, from little to much; empty where that cannot be set.
    pub efforts: Vec<String>,
}

impl ModelOption {
    /// A model.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), efforts: Vec::new() }
    }

    /// With these efforts.
    #[must_use]
    pub fn efforts(mut self, efforts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.efforts = efforts.into_iter().map(Into::into).collect();
        self
    }
}

/// The agent of a session.
#[derive(Clone)]
#[non_exhaustive]
pub struct SessionAgent {
    /// The agent.
    pub agent: DeepAgent,
    /// Its files, for the text that a file had before it is written.
    pub workspace: Arc<dyn Backend>,
    /// What can be typed after a slash, beside the commands for the modes.
    pub commands: Vec<SlashCommand>,
    /// Tokens that the model's context holds, where that is known.
    pub context_window: Option<u64>,
    /// What the model's tokens cost, where that is known.
    pub price: Option<Price>,
    /// What runs before a person is asked and when a session ends; those of runs are the agent's own.
    pub hooks: Option<HookRunner>,
    /// What was always allowed in the session's directory, and where a rule for it is kept.
    pub rules: Option<(RememberedRules, RuleScope)>,
    /// What commands reach.
    pub reach: CommandReach,
    /// Whether commands share a shell: what one means depends on those before it, so no rule says what it does.
    pub shares_shell: bool,
}

impl SessionAgent {
    /// An agent and its files.
    pub fn new(agent: DeepAgent, workspace: Arc<dyn Backend>) -> Self {
        Self {
            agent,
            workspace,
            commands: Vec::new(),
            context_window: None,
            price: None,
            hooks: None,
            rules: None,
            reach: CommandReach::default(),
            shares_shell: false,
        }
    }

    /// With these commands.
    #[must_use]
    pub fn commands(mut self, commands: Vec<SlashCommand>) -> Self {
        self.commands = commands;
        self
    }

    /// With a file of what was always allowed in the session's directory.
    #[must_use]
    pub fn rules(mut self, rules: Option<(RememberedRules, RuleScope)>) -> Self {
        self.rules = rules;
        self
    }

    /// With commands that reach this, and whether they share a shell.
    #[must_use]
    pub fn reach(mut self, reach: CommandReach, shares_shell: bool) -> Self {
        (self.reach, self.shares_shell) = (reach, shares_shell);
        self
    }

    /// With these hooks, which the agent has too.
    #[must_use]
    pub fn hooks(mut self, hooks: Option<HookRunner>) -> Self {
        self.hooks = hooks;
        self
    }

    /// On a model whose tokens cost this.
    #[must_use]
    pub fn price(mut self, price: Option<Price>) -> Self {
        self.price = price;
        self
    }

    /// On a model with a context of so many tokens.
    #[must_use]
    pub fn context_window(mut self, tokens: Option<u64>) -> Self {
        self.context_window = tokens;
        self
    }
}

impl fmt::Debug for SessionAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionAgent").field("agent", &self.agent).finish_non_exhaustive()
    }
}

/// Something that a person can type after a slash: a prompt that is written already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlashCommand {
    /// Its name, without the slash and without spaces.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What may follow it, if anything may.
    pub hint: Option<String>,
    /// What the agent is told in its place, with what followed the name, as [`slash::message`](deepagents::slash::message)
    /// puts it in.
    pub prompt: String,
}

/// Which kinds of MCP servers a host can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct McpSupport {
    /// Processes. The protocol wants every agent to take these.
    pub stdio: bool,
    /// Streamable HTTP.
    pub http: bool,
    /// HTTP with server-sent events, the older transport.
    pub sse: bool,
}

/// An MCP server that an editor brings to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
}

/// How an MCP server is reached. Values of variables and headers are not shown, they may be secrets.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpTransport {
    /// A process to be started.
    Stdio {
        /// The program.
        command: PathBuf,
        /// Its arguments.
        args: Vec<String>,
        /// Variables of its environment.
        env: BTreeMap<String, String>,
    },
    /// Streamable HTTP.
    Http {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, String)>,
    },
    /// HTTP with server-sent events.
    Sse {
        /// The address.
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
