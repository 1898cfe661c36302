//! Events that the interface receives.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents::core::model::ToolSpec;
use deepagents::remembered::{CommandReach, RememberedRule};
use deepagents::{ActionRequest, Event as RunEvent, FinishReason, Usage};

use super::decided::KeptDecision;
use super::effect::{ListOf, Trusted};
use super::transcript::{AgentWork, Item, Picture};
use crate::host::{CommandFile, Effort};
use crate::view::LaidOut;

/// An event that the interface handles.
#[derive(Debug)]
pub(crate) enum Event {
    /// A key press, a paste or a new size.
    Terminal(crossterm::event::Event),
    /// A clock tick.
    Tick,
    /// The last frame has been drawn.
    Drawn,
    /// The agent was built, or why not.
    Connected(Result<Box<Connected>, String>),
    /// A chosen model cannot be used. Holds the model that stays in use, if there is one.
    ModelRefused { name: String, problem: String, kept: Option<String> },
    /// An event of the foreground run.
    Run(Box<RunEvent>),
    /// A call needs approval.
    ApprovalRequested(Box<PendingApproval>),
    /// The run ended.
    RunEnded(Box<RunEnd>),
    /// The run on this thread moved to the background.
    MovedToBackground { thread: String },
    /// A background run ended or waits for a decision, described by `what`.
    BackgroundEnded { thread: String, what: String, waits: bool },
    /// A thread was opened.
    Opened(Result<Box<Opened>, String>),
    /// Another program has changed the open thread, which now has these items.
    Watched { opened: Box<Opened>, items: Arc<Vec<Item>> },
    /// Others have changed the open thread before a message that is being sent. `None` if they have deleted it.
    ThreadChangedElsewhere(Option<Box<Opened>>),
    /// A list to choose from.
    Choose(Choices),
    /// The updated list, if it is still open.
    Refreshed(Choices),
    /// The preview of a list entry, by its key.
    Previewed { of: ListOf, key: String, items: Vec<Item> },
    /// The status line.
    StatusLine(String),
    /// The provider's key was saved. Holds the model to use now.
    KeySaved(Result<String, String>),
    /// The reasoning effort was set.
    EffortSet(Option<Effort>),
    /// The files that match a completion's query.
    Files { query: String, found: Vec<String> },
    /// Output of the user's shell command.
    ShellOutput(String),
    /// The user's shell command ended.
    ShellEnded { code: Option<i32> },
    /// The conversation was compacted, or why not.
    Compacted(Result<String, String>),
    /// The cost of an answer: of the main agent if the path is empty, otherwise of a sub-agent.
    Cost { path: Vec<String>, dollars: f64 },
    /// The usage of a thread according to its log, and its cost as far as prices are known.
    Counted { thread: Option<String>, usage: Usage, dollars: Option<f64> },
    /// The messages taken back from the run, which had not received them yet.
    Retracted(Vec<String>),
    /// The transcript of a sub-agent.
    Transcript { title: String, items: Vec<Item> },
    /// The result of a slash command.
    Card { title: String, body: String },
    /// Images sent with a message or contained in tool results.
    Pictures(Vec<Picture>),
    /// A notice; `bad` if it reports a problem.
    Notice { text: String, bad: bool },
    /// The edited text, after the editor was closed.
    EditorClosed(Result<String, String>),
    /// Definitions or servers in the directory need the user's approval.
    Trust { of: Trusted, title: String, body: String },
}

impl Event {
    /// Creates a notice.
    pub(crate) fn notice(text: impl Into<String>) -> Self {
        Self::Notice { text: text.into(), bad: false }
    }

    /// Creates a notice of a problem.
    pub(crate) fn problem(text: impl Into<String>) -> Self {
        Self::Notice { text: text.into(), bad: true }
    }
}

/// A list to choose from. The first entry is selected initially.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    pub(crate) of: ListOf,
    pub(crate) rows: Vec<Choice>,
}

/// An entry of a list.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The id, name or position that identifies it.
    pub(crate) key: String,
    pub(crate) label: String,
    pub(crate) detail: String,
}

impl Choice {
    pub(crate) fn new(key: impl Into<String>, label: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { key: key.into(), label: label.into(), detail: detail.into() }
    }
}

/// The facts about an agent that was built.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connected {
    /// The display name of the model.
    pub(crate) model: String,
    /// The size of the context window in tokens, if known.
    pub(crate) window: Option<u64>,
    /// A description of the sandbox for commands.
    pub(crate) sandbox: String,
    pub(crate) reach: CommandReach,
    /// Whether commands share a shell.
    pub(crate) shares_shell: bool,
    /// The rules that are always allowed in this directory.
    pub(crate) remembered: Vec<RememberedRule>,
    /// The skills, for completion.
    pub(crate) skills: Vec<(String, String)>,
    /// Commands defined by files.
    pub(crate) commands: Vec<CommandFile>,
    /// Definitions in the directory that are not approved yet.
    pub(crate) offered: Vec<crate::host::Offered>,
    /// Notices for the user.
    pub(crate) notes: Vec<String>,
}

/// A call that needs a decision, and what it would change.
#[derive(Clone, Debug)]
pub(crate) struct PendingApproval {
    pub(crate) request: ActionRequest,
    /// The text of the file that it would change, if there is one.
    pub(crate) file: Option<String>,
    /// The tool's specification, if the main agent makes the call.
    pub(crate) tool: Option<Arc<ToolSpec>>,
    /// The task of the sub-agent that makes the call, if the conversation contains it.
    pub(crate) task: Option<String>,
    /// What the call would do, as it was last laid out: a whole file may be shown for each key.
    pub(crate) laid_out: LaidOut,
}

impl PendingApproval {
    /// Returns whether an item is the call that needs the decision, which has no result yet.
    pub(crate) fn is_about(&self, item: &Item) -> bool {
        let Item::Call(call) = item else { return false };
        let is_open = call.result.is_empty() && !call.failed;
        is_open && call.name == self.request.tool && call.args == self.request.args
    }
}

/// How a run ended.
#[derive(Clone, Debug)]
pub(crate) struct RunEnd {
    pub(crate) stop: Result<FinishReason, String>,
    /// The pending questions.
    pub(crate) questions: Vec<PendingApproval>,
    /// The last answer, in case the receiver lagged and missed pieces of it.
    pub(crate) text: String,
    /// The message of a run that did not start.
    pub(crate) unsent: Option<String>,
    /// Messages sent after it had ended with a question.
    pub(crate) early: Vec<String>,
}

impl RunEnd {
    /// Creates the event for a run without an outcome here: it failed, was cancelled, or was not started here.
    pub(crate) fn without_outcome(stop: Result<FinishReason, String>, unsent: Option<String>) -> Event {
        Event::RunEnded(Box::new(Self { stop, questions: Vec::new(), text: String::new(), unsent, early: Vec::new() }))
    }
}

/// The present state of a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened {
    pub(crate) thread: Option<String>,
    pub(crate) items: Vec<Item>,
    pub(crate) questions: Vec<PendingApproval>,
    /// Earlier decisions on some of the questions.
    pub(crate) decided: Vec<KeptDecision>,
    /// A notice about a last run that did not end.
    pub(crate) note: Option<String>,
    /// Whether the last turn ended in plan mode.
    pub(crate) planned: bool,
    /// The text to put into the input.
    pub(crate) input: Option<String>,
    /// Sub-agents with a pending question, by path.
    pub(crate) agents: BTreeMap<Vec<String>, AgentWork>,
    /// Messages that were waiting when the owning program was killed.
    pub(crate) waiting: Vec<String>,
    pub(crate) todos: Vec<deepagents::channels::Todo>,
    /// Tokens of all answers.
    pub(crate) usage: Usage,
    /// Tokens of the last request and its answer.
    pub(crate) context: u64,
}

impl Opened {
    /// Removes calls that need a decision from the items, as their questions show them.
    pub(crate) fn hide_asked(&mut self) {
        hide_asked(&self.questions, &mut self.items);
    }
}

/// Removes the calls that these questions show from items.
pub(crate) fn hide_asked(questions: &[PendingApproval], items: &mut Vec<Item>) {
    for question in questions.iter().filter(|question| question.request.call.path.is_empty()) {
        if let Some(at) = items.iter().rposition(|item| question.is_about(item)) {
            items.remove(at);
        }
    }
}
