//! What the screens are told, and what they want done.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents::core::model::ToolSpec;
use deepagents::remembered::{CommandReach, RememberedRule};
use deepagents::{ActionRequest, DecisionRecord, Event as RunEvent, FinishReason, Usage};

use super::decided::KeptDecision;
use super::transcript::{AgentWork, Item, Picture};
use crate::host::{CommandFile, Effort, Page};
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
    Connected(Result<Box<Connected>, String>),
    /// The run under way.
    Run(Box<RunEvent>),
    /// A call waits for a decision.
    ApprovalRequested(Box<PendingApproval>),
    /// The run ended.
    RunEnded(Box<RunEnd>),
    /// The run goes on in the background, on a thread of this id and title.
    SentBack { thread: String },
    /// A run in the background ended, or waits; in words.
    BackgroundEnded { thread: String, what: String, waits: bool },
    /// A thread was opened.
    Opened(Result<Box<Opened>, String>),
    /// Another program has gone on with the open thread.
    Watched(Box<Opened>),
    /// Others have gone on with the open thread before a message that is just being sent; nothing where they have deleted it.
    Overtaken(Option<Box<Opened>>),
    /// Something to choose from.
    Choose(Result<Choices, String>),
    /// The same list after a change, for those who still look at it.
    Refreshed(Choices),
    /// What is known of something that may be chosen, by its key.
    Previewed { of: ListOf, key: String, items: Vec<Item> },
    /// The line below the input.
    StatusLine(String),
    /// The key was kept; the model to use now.
    KeySaved(Result<String, String>),
    /// The model is told to think so much from now on, or it cannot be.
    EffortSet(Result<Option<Effort>, String>),
    /// Files for a completion.
    Files { query: String, found: Vec<String> },
    /// The person's own command says something.
    ShellOutput(String),
    /// It ended.
    ShellEnded { code: Option<i32> },
    /// The conversation was compacted, or could not be.
    Compacted(Result<String, String>),
    /// What an answer of a sub-agent has cost.
    Cost { path: Vec<String>, dollars: f64 },
    /// What the run was told and has not taken is taken back.
    Retracted(Vec<String>),
    /// What a sub-agent has said and done.
    Transcript { title: String, items: Vec<Item> },
    /// What a command of the person came to.
    Card { title: String, body: String },
    /// Pictures that are sent along, or are in results.
    Pictures(Vec<Picture>),
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
    Submit {
        text: String,
        context: Vec<String>,
        skills: Vec<String>,
        /// What was decided about calls of the turn before, which were left.
        decided: Vec<(ActionRequest, DecisionRecord)>,
    },
    /// Tells the run something.
    Steer(String),
    /// Keeps with a thread what waits to be told on it.
    KeepWaiting { thread: String, texts: Vec<String> },
    /// Keeps with a thread what was decided before all of its questions were.
    KeepDecided { thread: String, decided: Vec<KeptDecision> },
    /// Takes back what the run was told and has not taken.
    Retract,
    /// Ends the run.
    Cancel,
    /// Goes on with a run that waits.
    Answer(Vec<(String, DecisionRecord)>),
    /// Goes on with what was left unfinished.
    Resume,
    /// Goes on with what another program works on, which loses the thread.
    TakeOver,
    /// Lets the run go on in the background.
    SendBack,
    /// Runs a command of the person.
    Shell(String),
    /// Ends it.
    StopShell,
    /// Runs a command of the person beside the run.
    ShellBeside(String),
    /// Ends it.
    StopBeside,
    /// Fetches what there is to choose from.
    List(ListOf),
    /// Opens a thread.
    Open(String),
    /// Begins a new thread with the next message.
    NewThread,
    /// Goes back in the conversation, in its files, or in both.
    Rewind { position: u64, text: String, scope: RewindScope },
    /// Goes back to before the last message, with the files.
    Undo,
    /// Takes the last undo back.
    Redo,
    /// Looks at something that may be chosen.
    Preview { of: ListOf, key: String },
    /// Deletes a thread.
    DeleteThread(String),
    /// Reads what a sub-agent has said and done.
    OpenSubAgent { key: String, title: String },
    /// Gives a thread another title.
    RenameThread { id: String, title: String },
    /// Copies a thread and opens the copy.
    ForkThread(String),
    /// How much the model is to think; nothing for its own way.
    SetEffort(Option<Effort>),
    /// Asks again about everything.
    ForgetRules,
    /// Keeps the key of a provider, and uses a model of it.
    SaveKey { provider: String, key: Secret },
    /// Ends the screens, to show the demonstration.
    Demo,
    /// Has the person's command make the line below the input.
    StatusLine(String),
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
    /// Asks no more about some calls, in this session.
    Allow(Rule),
    /// Asks no more about them in this directory.
    Remember(RememberedRule),
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
    Efforts,
    Themes,
    /// Those whose key may be given.
    Providers,
    SubAgents,
}

/// A text that is not printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// What goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RewindScope {
    /// The conversation, and the files that the agent has changed since.
    #[default]
    Both,
    /// The conversation; files stay as they are.
    Conversation,
    /// The files; the conversation stays as it is.
    Files,
}

impl RewindScope {
    /// All there are, the usual one first.
    pub(crate) const ALL: [Self; 3] = [Self::Both, Self::Conversation, Self::Files];

    /// The one after it, or before it; the ends stay.
    #[must_use]
    pub(crate) fn step(self, down: bool) -> Self {
        match (self, down) {
            (Self::Both, true) | (Self::Files, false) => Self::Conversation,
            (Self::Conversation, true) | (Self::Files, true) => Self::Files,
            (Self::Conversation | Self::Both, false) => Self::Both,
        }
    }
}

/// What is shown on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// What fills the window; the tokens of the last request and its answer.
    Context {
        used: u64,
    },
    /// What the thread has cost.
    Cost,
    /// A page of the program around.
    Page(Page),
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
    pub(crate) reach: CommandReach,
    /// Whether they share a shell.
    pub(crate) shares_shell: bool,
    /// What was always allowed in this directory.
    pub(crate) remembered: Vec<RememberedRule>,
    /// The skills there are, for completion.
    pub(crate) skills: Vec<(String, String)>,
    /// Commands that files define.
    pub(crate) commands: Vec<CommandFile>,
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
    /// Its tool, where it is one of the main agent's own.
    pub(crate) tool: Option<Arc<ToolSpec>>,
    /// What the sub-agent was given to do whose call it is, where the conversation says so.
    pub(crate) task: Option<String>,
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
    /// What was decided before about some of them.
    pub(crate) decided: Vec<KeptDecision>,
    /// What is said about its last run, where that did not end.
    pub(crate) note: Option<String>,
    /// Whether its last turn was one of the mode in which plans are laid out, and came to its end.
    pub(crate) planned: bool,
    /// What stands in the input then.
    pub(crate) input: Option<String>,
    /// Sub-agents that wait within what is asked, by their paths.
    pub(crate) agents: BTreeMap<Vec<String>, AgentWork>,
    /// What waited to be told when the program that had it was killed.
    pub(crate) waiting: Vec<String>,
    pub(crate) todos: Vec<deepagents::channels::Todo>,
    /// Tokens of all answers.
    pub(crate) usage: Usage,
    /// Tokens of the last request and its answer.
    pub(crate) context: u64,
}

impl Opened {
    /// Leaves calls to the questions about them: what waits for a decision is shown there, and has no result.
    pub(crate) fn hide_asked(&mut self) {
        for question in self.questions.iter().filter(|question| question.request.call.path.is_empty()) {
            let request = &question.request;
            let is_it = |item: &Item| match item {
                Item::Call(call) => {
                    call.name == request.tool && call.args == request.args && call.result.is_empty() && !call.failed
                }
                _ => false,
            };
            if let Some(at) = self.items.iter().rposition(is_it) {
                self.items.remove(at);
            }
        }
    }
}
