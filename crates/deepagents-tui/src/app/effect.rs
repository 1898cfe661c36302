//! Effects that the interface requests.

use deepagents::models::credentials::Secret;
use deepagents::remembered::RememberedRule;
use deepagents::{ActionRequest, DecisionRecord};

use super::decided::KeptDecision;
use crate::host::{Effort, Page};
use crate::policy::{Mode, Rule};

/// An effect that the interface requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// Starts a run.
    Submit {
        text: String,
        context: Vec<String>,
        skills: Vec<String>,
        /// Decisions on calls of the previous turn whose questions were left.
        decided: Vec<(ActionRequest, DecisionRecord)>,
    },
    /// Sets or clears the goal that results are judged by, from the next message on. `once` clears it when it is met.
    SetGoal { text: Option<String>, once: bool },
    /// Builds the agent again, with what files define now.
    Reload,
    /// Sends the run a message.
    Steer(String),
    /// Saves the waiting messages with their thread.
    KeepWaiting { thread: String, texts: Vec<String> },
    /// Saves the decisions with their thread while other questions are open.
    KeepDecided { thread: String, decided: Vec<KeptDecision> },
    /// Takes back the messages that the run has not received yet.
    Retract,
    /// Cancels the run, or stops the user's shell command.
    Cancel,
    /// Resumes a run that waits for these decisions or was left unfinished. With `by_force`, even if another program
    /// works on it; that program loses the thread.
    Resume { answers: Vec<(String, DecisionRecord)>, by_force: bool },
    /// Moves the run to the background.
    MoveToBackground,
    /// Runs a shell command of the user.
    Shell(String),
    /// Runs a shell command of the user beside the run.
    ShellInBackground(String),
    /// Stops it.
    StopBackgroundShell,
    /// Loads a list to choose from.
    List(ListOf),
    /// Opens a thread.
    Open(String),
    /// Leaves the thread; the next message starts a new one.
    NewThread,
    /// Rewinds the conversation, its files, or both.
    Rewind { position: u64, text: String, scope: RewindScope },
    /// Rewinds to before the last message, with the files.
    Undo,
    /// Reverts the last undo.
    Redo,
    /// Loads the preview of a list entry.
    Preview { of: ListOf, key: String },
    /// Deletes a thread.
    DeleteThread(String),
    /// Loads the transcript of a sub-agent.
    OpenSubAgent { key: String, title: String },
    /// Renames a thread.
    RenameThread { id: String, title: String },
    /// Copies a thread and opens the copy.
    ForkThread(String),
    /// Sets the reasoning effort; `None` is the model's default.
    SetEffort(Option<Effort>),
    /// Removes all rules of the session.
    ForgetRules,
    /// Saves the key of a provider and switches to one of its models.
    SaveKey { provider: String, key: Secret },
    /// Quits to show the demonstration.
    Demo,
    /// Runs the user's command for the status line.
    StatusLine(String),
    /// Reads the thread's usage and cost from its log.
    Count,
    /// Compacts the conversation.
    Compact,
    /// Switches to another model.
    Connect(String),
    /// Shows information that has to be loaded.
    Show(Subject),
    /// Exports the conversation to a file below the root.
    Export { file: String, text: String },
    /// Copies a text to the clipboard.
    Copy(String),
    /// Opens a text in the user's editor.
    Edit(String),
    /// Searches for files.
    FindFiles(String),
    /// Sets the mode.
    SetMode(Mode),
    /// Allows calls for the rest of the session.
    Allow(Rule),
    /// Allows calls in this directory permanently.
    Remember(RememberedRule),
    /// Approves or declines definitions or servers in the directory.
    Trust { of: Trusted, agreed: bool },
    /// Notifies the user by the bell, the terminal or the user's command.
    Notify(String),
    /// Notifies hooks that a long run is over and the agent waits for the user.
    Idle,
    /// Stops the program until the user resumes it.
    Suspend,
    /// Quits the program.
    Quit,
}

/// What the user is asked to trust in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trusted {
    /// MCP servers, which run commands.
    Servers,
    /// Sub-agents, skills, memory files and other definitions.
    Definitions,
}

/// The kinds of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListOf {
    Threads,
    Checkpoints,
    Models,
    Efforts,
    Themes,
    /// The providers that accept a key.
    Providers,
    SubAgents,
}

/// What a rewind applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RewindScope {
    /// The conversation, and the files that the agent has changed since.
    #[default]
    Both,
    /// The conversation only.
    Conversation,
    /// The files only.
    Files,
}

impl RewindScope {
    /// All scopes, the default first.
    pub(crate) const ALL: [Self; 3] = [Self::Both, Self::Conversation, Self::Files];

    /// Returns the next or the previous scope, stopping at the ends.
    #[must_use]
    pub(crate) fn step(self, down: bool) -> Self {
        match (self, down) {
            (Self::Both, true) | (Self::Files, false) => Self::Conversation,
            (Self::Conversation | Self::Files, true) => Self::Files,
            (Self::Conversation | Self::Both, false) => Self::Both,
        }
    }
}

/// Information shown on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The contents of the context window. `used` is the number of tokens of the last request and its answer.
    Context {
        used: u64,
    },
    /// The cost of the thread.
    Cost,
    /// A page of the host program.
    Page(Page),
    Tools,
    Agents,
    Skills,
    Servers,
    Memory,
    Sandbox,
    Status,
    Diff,
    Goal,
    Offers,
}
