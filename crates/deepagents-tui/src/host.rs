//! What the screens need of the program around them.

use std::path::PathBuf;
use std::sync::Arc;

use deepagents::core::journal::{Journal, ThreadInfo};
use deepagents::core::model::Price;
use deepagents::fs::LocalBackend;
use deepagents::middleware::hooks::HookRunner;
use deepagents::{DeepAgent, RunError};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::policy::Policy;

/// The program that the screens are a part of: it makes agents and knows where things are kept.
///
/// Errors are sentences for the person at the terminal.
pub trait Host: Send + Sync + 'static {
    /// Makes an agent with a model, as the command line names it; without a name with the one that the program was
    /// started with. It is bound by the policy.
    fn connect<'a>(&'a self, model: Option<&'a str>, policy: &'a Policy) -> BoxFuture<'a, Result<Connection, String>>;

    /// The models that are known by name, with a remark on each.
    fn models(&self) -> Vec<(String, String)>;

    /// An id for a new thread.
    fn new_thread<'a>(&'a self, journal: &'a dyn Journal) -> BoxFuture<'a, Result<String, String>>;

    /// The full id of a thread that is named by the beginning of it.
    fn find_thread<'a>(&'a self, journal: &'a dyn Journal, given: &'a str)
    -> BoxFuture<'a, Result<ThreadInfo, String>>;

    /// What threads of this directory say of themselves, the process among it.
    fn metadata(&self) -> Map<String, Value>;

    /// Whether the process that owns a thread is gone, so that its lease need not run out.
    fn is_gone(&self, thread: &ThreadInfo) -> bool;

    /// What a failed run says to the person.
    fn explain_failure(&self, error: &RunError) -> String;

    /// The person's editor, as a command.
    fn editor(&self) -> String;

    /// Agrees to what the directory brings: to these for this session, or to all of it from now on. The agent is to be made
    /// anew then.
    fn agree<'a>(&'a self, names: Option<&'a [String]>) -> BoxFuture<'a, Result<(), String>>;

    /// The servers of tools and how they are, as text.
    fn servers(&self) -> BoxFuture<'_, Servers>;

    /// Lets servers that the directory defines be started, or not.
    fn trust_servers(&self, trusted: bool) -> BoxFuture<'_, Result<(), String>>;
}

/// Servers of tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// They are as the text says.
    Listed(String),
    /// The directory defines some that nobody has allowed yet: their commands.
    Untrusted(String),
    /// Tools say something else than when somebody allowed them, and are left out: what they say now.
    Changed(String),
}

/// An agent and what belongs to it.
#[derive(Clone)]
pub struct Connection {
    /// The agent.
    pub agent: DeepAgent,
    /// Its threads.
    pub journal: Arc<dyn Journal>,
    /// Its files.
    pub files: LocalBackend,
    /// What runs before the person is asked, and when a thread is left; those of runs are the agent's own.
    pub hooks: Option<HookRunner>,
    /// Its model, as people name it.
    pub model: String,
    /// Tokens that a request may hold, where that is known.
    pub window: Option<u64>,
    /// What the model's tokens cost, where that is known.
    pub price: Option<Price>,
    /// Whether commands are confined, in a few words.
    pub sandbox: String,
    /// What the directory brings and nobody has agreed to yet; the agent is made without it.
    pub offered: Vec<Offered>,
    /// What the person should know.
    pub notes: Vec<String>,
}

/// A skill, a sub-agent or notes that a directory brings and nobody has agreed to yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// What it is, in a word.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What it is for, as it says itself.
    pub about: String,
    /// Everything that it says.
    pub text: String,
}

/// How the screens begin.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program's version.
    pub version: String,
    /// The model, as the command line or the environment names it.
    pub model: String,
    /// The directory.
    pub root: PathBuf,
    /// The user's home directory, for shorter paths.
    pub home: Option<PathBuf>,
    /// The mode to begin in.
    pub mode: crate::Mode,
    /// The thread to begin with.
    pub begin: Begin,
    /// Whether colours are wanted.
    pub colour: bool,
    /// The name of a theme; nothing for the usual one.
    pub theme: Option<String>,
    /// The file of the input history.
    pub history: Option<PathBuf>,
    /// Whether there are commands for debugging.
    pub debug: bool,
    /// The shell of the person's own commands.
    pub shell: String,
}

/// The thread to begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// A new one.
    New,
    /// The one that changed last in the directory.
    Continue,
    /// The one of this id, or of the only id that begins so.
    Resume(String),
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("model", &self.model).field("sandbox", &self.sandbox).finish_non_exhaustive()
    }
}
