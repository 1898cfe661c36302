//! What the interface needs from the program around it.

use std::path::PathBuf;
use std::sync::Arc;

use deepagents::core::journal::{Journal, ThreadInfo};
use deepagents::core::model::Price;
use deepagents::fs::LocalBackend;
use deepagents::middleware::hooks::HookRunner;
use deepagents::models::Catalogue;
use deepagents::remembered::{CommandReach, RememberedRule};
use deepagents::slash;
use deepagents::{DeepAgent, RunError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::policy::{Mode, Policy};

/// The program that embeds the interface: it builds agents and knows where data is stored.
///
/// Errors are sentences for the user.
pub trait Host: Send + Sync + 'static {
    /// Builds an agent that follows `policy`. `model` is a name as on the command line; `None` is the model that the
    /// program was started with.
    fn connect<'a>(&'a self, model: Option<&'a str>, policy: &'a Policy) -> BoxFuture<'a, Result<Connection, String>>;

    /// Reads the settings again, for the next agent. Returns problems with some of them, as sentences for the user.
    ///
    /// # Errors
    /// Returns an error if the settings cannot be read. The earlier ones remain in use.
    fn reload(&self) -> BoxFuture<'_, Result<Vec<String>, String>> {
        async { Ok(Vec::new()) }.boxed()
    }

    /// Returns the models that can be chosen by name, with their prices and context windows, including those of servers
    /// on this machine. If the program was given a server address, returns the current model and the others of that
    /// server.
    fn models(&self) -> BoxFuture<'_, Vec<(String, String)>>;

    /// Sets the reasoning effort of the model from the next agent on; `None` is the model's default.
    ///
    /// # Errors
    /// Returns an error if it is not known how to set the effort with the model's provider.
    fn set_effort(&self, effort: Option<Effort>) -> Result<(), String>;

    /// Returns the providers that the user can enter a key for, each with a remark.
    fn providers(&self) -> Vec<(String, String)>;

    /// Saves the key of a provider and returns the name of one of its models.
    fn save_key<'a>(&'a self, provider: &'a str, key: &'a str) -> BoxFuture<'a, Result<String, String>>;

    /// Returns the text of a page.
    fn page(&self, page: Page) -> BoxFuture<'_, Result<String, String>>;

    /// Returns an id for a new thread.
    fn new_thread<'a>(&'a self, journal: &'a dyn Journal) -> BoxFuture<'a, Result<String, String>>;

    /// Finds a thread by its id or a prefix of it.
    fn find_thread<'a>(&'a self, journal: &'a dyn Journal, given: &'a str)
    -> BoxFuture<'a, Result<ThreadInfo, String>>;

    /// Returns the metadata that threads of this directory record when they are used in `mode`: the directory, the
    /// process, the model and how approvals are decided.
    fn metadata(&self, mode: Mode) -> Map<String, Value>;

    /// Returns the mode in which a thread was last used, if it records one.
    fn mode_of(&self, thread: &ThreadInfo) -> Option<Mode>;

    /// Gives a copied thread the recorded file versions of the original.
    fn adopt<'a>(&'a self, connection: &'a Connection, thread: &'a str) -> BoxFuture<'a, Result<(), String>>;

    /// Starts a separate process that resumes a thread once nobody else works on it.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started.
    fn detach(&self, thread: &str, mode: Mode) -> Result<(), String>;

    /// Returns whether the process that owns a thread has exited, so that its lease need not expire first.
    fn is_gone(&self, thread: &ThreadInfo) -> bool;

    /// Returns the message shown for a failed run.
    fn explain_failure(&self, error: &RunError) -> String;

    /// Returns the user's editor, as a command.
    fn editor(&self) -> String;

    /// Returns the [definitions](Offered) in the directory that the user has not decided about yet. They are read anew,
    /// as an agent may have written some in the meantime.
    fn offered(&self) -> BoxFuture<'_, Result<Vec<Offered>, String>>;

    /// Approves definitions in the directory: those named, for this session, or all of them permanently. The agent has
    /// to be rebuilt afterwards.
    fn agree<'a>(&'a self, names: Option<&'a [String]>) -> BoxFuture<'a, Result<(), String>>;

    /// Saves a rule for the directory, so that the calls it covers no longer need approval.
    ///
    /// # Errors
    /// Returns an error if the rule cannot be saved.
    fn remember<'a>(&'a self, rule: &'a RememberedRule) -> BoxFuture<'a, Result<(), String>>;

    /// Returns the MCP servers and their state, as text.
    fn servers(&self) -> BoxFuture<'_, Servers>;

    /// Returns the names and descriptions of the servers' tools. A server that does not answer in time contributes
    /// none.
    fn server_tools(&self) -> BoxFuture<'_, Vec<(String, String)>>;

    /// Sets whether servers that the directory defines may be started.
    fn trust_servers(&self, trusted: bool) -> BoxFuture<'_, Result<(), String>>;
}

/// The reasoning effort of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Effort {
    Low,
    Medium,
    High,
}

impl Effort {
    /// All efforts.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// Returns the effort's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// Returns the effort of this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.as_str() == word)
    }
}

/// A page of information about the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The settings and where each comes from.
    Config,
    /// A check of this machine's setup.
    Doctor,
    /// The rules that are always allowed in this directory.
    Permissions,
    /// The data to include in a bug report.
    Bug,
}

/// A command defined by a Markdown file. Its text is sent as the message, with the arguments inserted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandFile {
    /// Its name, without the slash.
    pub name: String,
    /// A hint about its arguments, in a word or two.
    pub args: String,
    /// Its description.
    pub about: String,
    /// The message. `$ARGUMENTS` stands for all arguments, `$1` to `$9` for single ones, which may be quoted or escaped
    /// with `\` as in a shell. If the text has no placeholder, the arguments are appended.
    pub text: String,
}

impl CommandFile {
    /// Returns the message for the arguments typed after the command's name.
    ///
    /// ```
    /// use deepagents_tui::CommandFile;
    /// let fix = CommandFile { text: "Fix issue $1: $ARGUMENTS".to_owned(), ..CommandFile::default() };
    /// assert_eq!(fix.message("42 soon"), "Fix issue 42: 42 soon");
    /// assert_eq!(fix.message("'4 2' soon"), "Fix issue 4 2: '4 2' soon");
    /// let plain = CommandFile { text: "Say hello.".to_owned(), ..CommandFile::default() };
    /// assert_eq!(plain.message("to Ada"), "Say hello.\n\nto Ada");
    /// ```
    pub fn message(&self, args: &str) -> String {
        slash::message(&self.text, args)
    }
}

/// The state of the MCP servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// The servers and their state, as text.
    Listed(String),
    /// The directory defines servers that nobody has approved yet. Holds their commands.
    Untrusted(String),
    /// Tools have changed since they were approved, so they are left out. Holds their present definitions.
    Changed(String),
}

/// An agent and what belongs to it.
#[derive(Clone)]
pub struct Connection {
    /// The agent.
    pub agent: DeepAgent,
    /// The journal with its threads.
    pub journal: Arc<dyn Journal>,
    /// Its file backend.
    pub files: LocalBackend,
    /// Hooks that run before the user is asked and when a thread is closed. The agent runs the hooks of its runs
    /// itself.
    pub hooks: Option<HookRunner>,
    /// The display name of its model.
    pub model: String,
    /// The reason if there is no model. Threads can still be viewed, but nothing can run.
    pub missing: Option<String>,
    /// The size of the context window in tokens, if known.
    pub window: Option<u64>,
    /// The price of the model's tokens, if known.
    pub price: Option<Price>,
    /// The prices of the models that sub-agents may use.
    pub catalogue: Catalogue,
    /// A short description of how commands are sandboxed.
    pub sandbox: String,
    /// What commands can access.
    pub reach: CommandReach,
    /// Whether commands share a shell. The effect of a command then depends on the ones before it, so no rule can cover
    /// it.
    pub shares_shell: bool,
    /// The rules that are always allowed in this directory, as far as they apply here.
    pub remembered: Vec<RememberedRule>,
    /// Commands defined by files, if they may be used.
    pub commands: Vec<CommandFile>,
    /// Definitions in the directory that the user has not approved yet; the agent is built without them.
    pub offered: Vec<Offered>,
    /// Notices for the user.
    pub notes: Vec<String>,
}

/// A skill, sub-agent, memory file, command or settings file of the directory that the user has not approved yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// Its kind, in a word.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its own description.
    pub about: String,
    /// Its full text.
    pub text: String,
}

/// The options that the interface starts with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program's version.
    pub version: String,
    /// The model, as named on the command line or in the environment.
    pub model: String,
    /// The working directory.
    pub root: PathBuf,
    /// The user's home directory, for displaying shorter paths.
    pub home: Option<PathBuf>,
    /// The initial mode.
    pub mode: crate::Mode,
    /// The thread to open first.
    pub begin: Begin,
    /// Whether to use colours.
    pub colour: bool,
    /// The user's preferences.
    pub preferences: crate::Preferences,
    /// Whether the user has no model key yet and is asked for one.
    pub onboarding: bool,
    /// The file of the input history.
    pub history: Option<PathBuf>,
    /// Whether debugging commands are available.
    pub debug: bool,
    /// The shell for commands that the user runs.
    pub shell: String,
}

/// The thread to open first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// A new thread.
    New,
    /// The thread of the directory that changed last.
    Continue,
    /// The thread with this id, or the only one whose id begins with it.
    Resume(String),
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("model", &self.model).field("sandbox", &self.sandbox).finish_non_exhaustive()
    }
}
