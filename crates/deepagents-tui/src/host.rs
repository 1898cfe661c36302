//! What the screens need of the program around them.

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
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::policy::{Mode, Policy};

/// The program that the screens are a part of: it makes agents and knows where things are kept.
///
/// Errors are sentences for the person at the terminal.
pub trait Host: Send + Sync + 'static {
    /// Makes an agent with a model, as the command line names it; without a name with the one that the program was
    /// started with. It is bound by the policy.
    fn connect<'a>(&'a self, model: Option<&'a str>, policy: &'a Policy) -> BoxFuture<'a, Result<Connection, String>>;

    /// The models that can be chosen by name, with their prices and windows, those of servers on this machine among them. Where
    /// the program was given the address of a server: the model in use, and what else that server has.
    fn models(&self) -> BoxFuture<'_, Vec<(String, String)>>;

    /// Has the model think more or less from the next agent on; nothing for the model's own way.
    ///
    /// # Errors
    /// Where nobody knows how its provider is told.
    fn set_effort(&self, effort: Option<Effort>) -> Result<(), String>;

    /// The providers whose keys may be given, with a remark on each.
    fn providers(&self) -> Vec<(String, String)>;

    /// Keeps the key of a provider, and says the name of a model of it.
    fn save_key<'a>(&'a self, provider: &'a str, key: &'a str) -> BoxFuture<'a, Result<String, String>>;

    /// A page of the program.
    fn page(&self, page: Page) -> BoxFuture<'_, Result<String, String>>;

    /// An id for a new thread.
    fn new_thread<'a>(&'a self, journal: &'a dyn Journal) -> BoxFuture<'a, Result<String, String>>;

    /// The full id of a thread that is named by the beginning of it.
    fn find_thread<'a>(&'a self, journal: &'a dyn Journal, given: &'a str)
    -> BoxFuture<'a, Result<ThreadInfo, String>>;

    /// What threads of this directory say of themselves when they are worked on in a mode: the directory, the process, the
    /// model and how decisions are made.
    fn metadata(&self, mode: Mode) -> Map<String, Value>;

    /// The mode that a thread was worked on in last, where it notes that.
    fn mode_of(&self, thread: &ThreadInfo) -> Option<Mode>;

    /// Gives a copy of a thread what was recorded of the files of the other.
    fn adopt<'a>(&'a self, connection: &'a Connection, thread: &'a str) -> BoxFuture<'a, Result<(), String>>;

    /// Has a process of its own go on with a thread, once nobody else works on it.
    ///
    /// # Errors
    /// When none can be started.
    fn detach(&self, thread: &str, mode: Mode) -> Result<(), String>;

    /// Whether the process that owns a thread is gone, so that its lease need not run out.
    fn is_gone(&self, thread: &ThreadInfo) -> bool;

    /// What a failed run says to the person.
    fn explain_failure(&self, error: &RunError) -> String;

    /// The person's editor, as a command.
    fn editor(&self) -> String;

    /// What the directory brings now and nobody has decided about: an agent may have written it since it was made.
    fn offered(&self) -> BoxFuture<'_, Result<Vec<Offered>, String>>;

    /// Agrees to what the directory brings: to these for this session, or to all of it from now on. The agent is to be made
    /// anew then.
    fn agree<'a>(&'a self, names: Option<&'a [String]>) -> BoxFuture<'a, Result<(), String>>;

    /// Keeps a rule for the directory, so that calls that it covers are not asked about again.
    ///
    /// # Errors
    /// When it cannot be kept.
    fn remember<'a>(&'a self, rule: &'a RememberedRule) -> BoxFuture<'a, Result<(), String>>;

    /// The servers of tools and how they are, as text.
    fn servers(&self) -> BoxFuture<'_, Servers>;

    /// The tools that these servers have, by name, with what they are for. A server that does not answer soon has none.
    fn server_tools(&self) -> BoxFuture<'_, Vec<(String, String)>>;

    /// Lets servers that the directory defines be started, or not.
    fn trust_servers(&self, trusted: bool) -> BoxFuture<'_, Result<(), String>>;
}

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Effort {
    Low,
    Medium,
    High,
}

impl Effort {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// The effort that a word means.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.as_str() == word)
    }
}

/// What the program says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The settings, with where each comes from.
    Config,
    /// What this machine has.
    Doctor,
    /// What was always allowed, in this directory.
    Permissions,
    /// What a report of a mistake should hold.
    Bug,
}

/// A command that a Markdown file defines: its text is the message, with what was typed behind the name in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandFile {
    /// Its name, without the slash.
    pub name: String,
    /// What it takes, in a word or two.
    pub args: String,
    /// What it is for.
    pub about: String,
    /// The message. `$ARGUMENTS` stands for what was typed, `$1` to `$9` for its words, which quotes and `\` keep together as
    /// in a shell; where neither is in it, what was typed comes behind it.
    pub text: String,
}

impl CommandFile {
    /// The message that the command makes of what was typed behind its name.
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
    /// Why there is no model, where there is none: threads are shown, and nothing is run.
    pub missing: Option<String>,
    /// Tokens that a request may hold, where that is known.
    pub window: Option<u64>,
    /// What the model's tokens cost, where that is known.
    pub price: Option<Price>,
    /// What the models of sub-agents may cost.
    pub catalogue: Catalogue,
    /// Whether commands are confined, in a few words.
    pub sandbox: String,
    /// What they reach.
    pub reach: CommandReach,
    /// Whether they share a shell: what one means depends on those before it, so no rule says what it does.
    pub shares_shell: bool,
    /// What was always allowed in the directory, as far as it holds here.
    pub remembered: Vec<RememberedRule>,
    /// Commands that files define, as far as they may be used.
    pub commands: Vec<CommandFile>,
    /// What the directory brings and nobody has agreed to yet; the agent is made without it.
    pub offered: Vec<Offered>,
    /// What the person should know.
    pub notes: Vec<String>,
}

/// A skill, a sub-agent, notes, a command or settings that a directory brings and nobody has agreed to yet.
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
    /// How the person wants the screens to be.
    pub preferences: crate::Preferences,
    /// Whether the person has no key for a model yet and is asked for one.
    pub onboarding: bool,
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
