//! What the screens are told, and what they want done.

use deepagents::{ActionRequest, DecisionRecord, Event as RunEvent, FinishReason, Usage};

use super::transcript::Item;
use crate::policy::{Mode, Rule};

/// Something happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A key, a paste, a size.
    Terminal(crossterm::event::Event),
    /// Time went by.
    Tick,
    /// What was to be seen is on the screen.
    Drawn,
    /// The agent is there, or why it is not.
    Connected(Result<Connected, String>),
    /// The run under way.
    Run(Box<RunEvent>),
    /// A call waits for a decision.
    ApprovalRequested(Box<PendingApproval>),
    /// The run ended.
    RunEnded(Box<RunEnd>),
    /// A thread was opened.
    Opened(Result<Box<Opened>, String>),
    /// Another program has gone on with the open thread.
    Watched(Box<Opened>),
    /// Something to choose from.
    Choose(Result<Choices, String>),
    /// Files for a completion.
    Files { query: String, found: Vec<String> },
    /// The person's own command says something.
    ShellOutput(String),
    /// It ended.
    ShellEnded { code: Option<i32> },
    /// The conversation was compacted, or could not be.
    Compacted(Result<String, String>),
    /// What a command of the person came to.
    Card { title: String, body: String },
    /// A note, and whether it is about something that went wrong.
    Notice { text: String, bad: bool },
    /// The text that an editor left.
    EditorClosed(Result<String, String>),
    /// What the directory brings waits to be allowed.
    Trust { of: Trusted, title: String, body: String },
}

/// Something is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// Begins a run.
    Submit { text: String, context: Vec<String>, skills: Vec<String> },
    /// Tells the run something.
    Steer(String),
    /// Ends the run.
    Cancel,
    /// Goes on with a run that waits.
    Answer(Vec<(String, DecisionRecord)>),
    /// Goes on with what was left unfinished.
    Resume,
    /// Runs a command of the person.
    Shell(String),
    /// Ends it.
    StopShell,
    /// Fetches what there is to choose from.
    List(ListOf),
    /// Opens a thread.
    Open(String),
    /// Begins a new thread with the next message.
    NewThread,
    /// Goes back in the conversation, and in its files.
    Rewind { position: u64, text: String, files: bool },
    /// Compacts the conversation.
    Compact,
    /// Uses another model.
    Connect(String),
    /// Shows something that has to be asked for.
    Show(Subject),
    /// Writes the conversation to a file below the root.
    Export { file: String, text: String },
    /// Puts a text on the clipboard.
    Copy(String),
    /// Edits a text with the person's editor.
    Edit(String),
    /// Looks for files.
    FindFiles(String),
    /// Asks before calls as this mode says.
    SetMode(Mode),
    /// Asks no more about some calls.
    Allow(Rule),
    /// Agrees to what the directory brings, or not.
    Trust { of: Trusted, agreed: bool },
    /// Rings, and says so to a terminal that shows notifications.
    Notify(String),
    /// Tells hooks that a long run is over and the person may go on.
    Idle,
    /// Gives the terminal back until the person returns.
    Suspend,
    /// Ends the program.
    Quit,
}

/// What a directory brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trusted {
    /// Servers of tools, which are commands.
    Servers,
    /// Sub-agents, skills and notes.
    Definitions,
}

/// What there is to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListOf {
    Threads,
    Checkpoints,
    Models,
}

/// What is shown on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Tools,
    Agents,
    Skills,
    Servers,
    Memory,
    Sandbox,
    Status,
    Diff,
    Offers,
}

/// Things to choose from, the one to begin with first.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    pub(crate) of: ListOf,
    pub(crate) rows: Vec<Choice>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// What is chosen by it: an id, a name, a position.
    pub(crate) key: String,
    pub(crate) label: String,
    pub(crate) detail: String,
}

/// An agent that can be asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connected {
    /// The model as people name it.
    pub(crate) model: String,
    /// Tokens that its requests may hold, where that is known.
    pub(crate) window: Option<u64>,
    pub(crate) price: Option<deepagents::core::model::Price>,
    /// Whether commands are confined, in words.
    pub(crate) sandbox: String,
    /// The skills there are, for completion.
    pub(crate) skills: Vec<(String, String)>,
    /// What the directory brings and nobody has agreed to yet.
    pub(crate) offered: Vec<crate::host::Offered>,
    /// What the person should know.
    pub(crate) notes: Vec<String>,
}

/// A call that waits, and what it would change.
#[derive(Clone, Debug)]
pub(crate) struct PendingApproval {
    pub(crate) request: ActionRequest,
    /// The text of the file that it is about, where there is one.
    pub(crate) file: Option<String>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub(crate) struct RunEnd {
    pub(crate) stop: Result<FinishReason, String>,
    /// What it waits for.
    pub(crate) questions: Vec<PendingApproval>,
    /// The last answer, for a reader that missed pieces of it.
    pub(crate) text: String,
    /// The message that it was to begin with, where it did not begin.
    pub(crate) unsent: Option<String>,
}

/// A thread as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened {
    pub(crate) thread: Option<String>,
    pub(crate) items: Vec<Item>,
    pub(crate) questions: Vec<PendingApproval>,
    /// What is said about its last run, where that did not end.
    pub(crate) note: Option<String>,
    /// What stands in the input then.
    pub(crate) input: Option<String>,
    pub(crate) todos: Vec<deepagents::channels::Todo>,
    /// Tokens of all answers.
    pub(crate) usage: Usage,
    /// Tokens of the last request and its answer.
    pub(crate) context: u64,
}
