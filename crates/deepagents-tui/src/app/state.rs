//! Everything that is shown, and everything that keys can mean.

use std::time::Instant;

use deepagents::channels::Todo;
use deepagents::{ActionRequest, DecisionRecord, Usage};

use super::decided::KeptDecision;
use super::event::{Connected, Effect, Trusted};
use super::live::Live;
use super::menu::Menu;
use super::messages::{Plan, QueuedMessage};
use super::pager::{Pager, Source};
use super::pending::Questions;
use super::picker::Picker;
use super::transcript::Item;
use crate::host::Effort;
use crate::input::{Editor, History, Vi};
use crate::key_map::{Action, KeyMap};
use crate::policy::Mode;
use crate::theme::{Theme, Themes};

/// What is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Work {
    #[default]
    Nothing,
    /// A run.
    Run,
    /// A command of the person.
    Shell(ShellRun),
    /// Something that has to be waited for, in words.
    Other(&'static str),
}

/// A command of the person, as far as it has said something; whether the model is to see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellRun {
    pub(crate) command: String,
    pub(crate) output: String,
    pub(crate) shared: bool,
}

/// What covers the conversation.
#[derive(Clone, Debug, Default)]
pub(crate) enum Overlay {
    #[default]
    None,
    Picker(Picker),
    Pager(Pager),
    /// Searching the history: the words, and how many matches are passed over.
    Search {
        words: String,
        skip: usize,
    },
    /// Typing the key of a provider.
    Secret {
        provider: String,
        editor: Editor,
    },
    /// A question of the program itself that `y` and `n` answer.
    Trust(TrustQuestion),
}

/// Whether what a directory brings is agreed to.
#[derive(Clone, Debug)]
pub(crate) struct TrustQuestion {
    pub(crate) of: Trusted,
    pub(crate) title: String,
    pub(crate) body: String,
    /// Whether it has been on the screen, with its keys.
    pub(crate) shown: bool,
}

/// What a screen says of the session.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionInfo {
    pub(crate) version: String,
    pub(crate) model: String,
    pub(crate) directory: String,
    pub(crate) thread: Option<String>,
    pub(crate) connected: Option<Connected>,
    /// Why there is no agent.
    pub(crate) problem: Option<String>,
    /// Tokens of all answers of the thread.
    pub(crate) usage: Usage,
    /// Tokens of the last request and its answer.
    pub(crate) context: u64,
}

/// Everything that is shown, and everything that keys can mean.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) now: Instant,
    pub(crate) size: (u16, u16),
    pub(crate) theme: Theme,
    pub(crate) themes: Themes,
    pub(crate) keys: KeyMap,
    /// Where a person is who edits as in vi.
    pub(crate) vi: Option<Vi>,
    /// The providers whose keys may be given.
    pub(crate) providers: Vec<(String, String)>,
    /// Whether no model was chosen yet, so that nothing can be sent.
    pub(crate) without_model: bool,
    /// Whether a command of the person makes a line below the input, what it was told last, and the line.
    pub(crate) has_status_command: bool,
    pub(super) told_status: String,
    pub(crate) status_line: String,
    pub(crate) mode: Mode,
    /// How much the model was told to think.
    pub(crate) effort: Option<Effort>,
    pub(crate) session: SessionInfo,
    pub(crate) editor: Editor,
    pub(crate) history: History,
    pub(crate) items: Vec<Item>,
    pub(crate) live: Live,
    pub(crate) work: Work,
    /// Since when something is under way.
    pub(crate) since: Instant,
    /// What the conversation had spent then.
    pub(crate) spent_before: Usage,
    pub(crate) todos: Vec<Todo>,
    /// Threads whose runs go on in the background.
    pub(crate) background: Vec<String>,
    /// Messages that the run has not taken yet.
    pub(crate) waiting: Vec<QueuedMessage>,
    /// What of them is kept, and with which thread.
    pub(super) kept: (Option<String>, Vec<String>),
    /// What was decided that is kept with a thread, and with which.
    pub(super) kept_decided: (Option<String>, Vec<KeptDecision>),
    pub(crate) questions: Questions,
    /// A plan that Enter carries out, once it has been on the screen.
    pub(crate) plan: Option<Plan>,
    /// Whether the present turn answers what was said about a plan.
    pub(super) revises_plan: bool,
    pub(crate) overlay: Overlay,
    pub(crate) menu: Option<Menu>,
    /// The input for which a menu was closed.
    pub(super) closed: String,
    /// What was decided when questions were left before all of them were, for the next message.
    pub(super) left: Vec<(ActionRequest, DecisionRecord)>,
    /// A command of the person that runs beside the run.
    pub(crate) beside: Option<ShellRun>,
    /// What the person's commands said, for the next message.
    pub(super) context: Vec<String>,
    /// A remark that goes away with the next key, and after a while where it holds no longer.
    pub(crate) hint: Option<String>,
    pub(super) hint_ends: Option<Instant>,
    /// When Ctrl+C was pressed last with nothing to stop.
    pub(super) last_interrupt: Option<Instant>,
    /// When something was typed last.
    pub(super) typed: Option<Instant>,
    /// What is done once the run has ended.
    pub(super) after: Vec<Effect>,
    /// How much of the conversation there was when it was asked to go on.
    pub(super) resumed_at: Option<usize>,
    /// Whether what is in the input was put there by going back, or was not sent: a command takes its place.
    pub(super) came_back: bool,
    /// The model to use then.
    pub(super) next_model: Option<String>,
    /// Whether the run is being ended.
    pub(crate) stopping: bool,
    /// Whether the run has ended and waits for decisions.
    pub(super) waits: bool,
    /// Whether what was printed is to be printed anew.
    pub(crate) repaint: bool,
    /// Whether another conversation has taken the place of the one that was printed.
    pub(crate) reopened: bool,
    /// Whether the person's debugging commands are there.
    pub(crate) debug: bool,
    /// Whether the run goes on with what the person has decided, and not with a message.
    pub(super) goes_on: bool,
    /// Whether what is in the person's editor is what they write at a question.
    pub(super) edits_answer: bool,
    /// Where the search in the history began.
    pub(super) before_search: String,
}

impl App {
    /// An empty conversation.
    pub(crate) fn new(
        size: (u16, u16),
        (themes, theme): (Themes, Theme),
        mode: Mode,
        session: SessionInfo,
        history: History,
    ) -> Self {
        let now = Instant::now();
        let head = Item::Head {
            lines: vec![
                format!("deepagents {}", session.version),
                format!("{} · {}", session.model, session.directory),
                "/help tells commands and keys".to_owned(),
            ],
        };
        Self {
            now,
            size,
            theme,
            themes,
            keys: KeyMap::default(),
            vi: None,
            providers: Vec::new(),
            without_model: false,
            has_status_command: false,
            told_status: String::new(),
            status_line: String::new(),
            mode,
            effort: None,
            session,
            editor: Editor::default(),
            history,
            items: vec![head],
            live: Live::default(),
            work: Work::Nothing,
            since: now,
            spent_before: Usage::default(),
            todos: Vec::new(),
            background: Vec::new(),
            waiting: Vec::new(),
            kept: (None, Vec::new()),
            kept_decided: (None, Vec::new()),
            questions: Questions::default(),
            plan: None,
            revises_plan: false,
            overlay: Overlay::None,
            menu: None,
            closed: String::new(),
            left: Vec::new(),
            beside: None,
            context: Vec::new(),
            hint: None,
            hint_ends: None,
            last_interrupt: None,
            typed: None,
            after: Vec::new(),
            resumed_at: None,
            came_back: false,
            next_model: None,
            stopping: false,
            waits: false,
            repaint: false,
            reopened: false,
            debug: false,
            goes_on: false,
            edits_answer: false,
            before_search: String::new(),
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.work != Work::Nothing
    }

    /// What is said where something cannot be done meanwhile.
    pub(super) fn stop_first(&self) -> String {
        format!("stop what is under way first ({})", self.keys.name(Action::Stop))
    }

    /// Whether something moves without an event: a clock, a spinner.
    pub(crate) fn is_moving(&self) -> bool {
        self.is_busy() && !self.waits && !self.theme.spoken
    }

    /// When the screens change by themselves next, if nothing moves on them.
    pub(crate) fn wakes(&self) -> Option<Instant> {
        self.hint_ends
    }

    /// Whether the question that is to be answered now is on the screen, and not covered by something else.
    pub(crate) fn shows_question(&self) -> bool {
        let Some(question) = self.questions.current() else { return false };
        match &self.overlay {
            Overlay::None | Overlay::Search { .. } => true,
            Overlay::Pager(pager) => match &pager.source {
                Source::Approval(read) => read.request.id == question.request.id,
                Source::Together(calls) => calls.iter().any(|call| call.request.id == question.request.id),
                Source::Conversation | Source::Items { .. } | Source::Preview(_) | Source::Trust(_) => false,
            },
            Overlay::Picker(_) | Overlay::Secret { .. } | Overlay::Trust(_) => false,
        }
    }
}
