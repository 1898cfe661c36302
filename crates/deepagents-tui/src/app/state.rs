//! The state of the interface.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deepagents::channels::Todo;
use deepagents::{ActionRequest, DecisionRecord, Usage};

use super::decided::KeptDecision;
use super::effect::Effect;
use super::event::Connected;
use super::live::Live;
use super::menu::Menu;
use super::messages::{Plan, QueuedMessage};
use super::pager::{Pager, Source};
use super::pending::Questions;
use super::picker::Picker;
use super::reading::TrustQuestion;
use super::transcript::Item;
use crate::host::Effort;
use crate::input::{Editor, History, Vi};
use crate::key_map::{Action, KeyMap};
use crate::policy::Mode;
use crate::theme::{Theme, Themes};

/// The work in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Work {
    #[default]
    Nothing,
    /// A run.
    Run,
    /// A shell command of the user.
    Shell(ShellRun),
    /// Other work, with its description.
    Other(&'static str),
}

/// A shell command of the user, its output so far, and whether the model gets to see it.
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
    /// The history search: the search text, and the number of matches to skip.
    Search {
        words: String,
        skip: usize,
    },
    /// Input of a provider's key.
    Secret {
        provider: String,
        editor: Editor,
    },
    /// A question of the program itself, answered with `y` or `n`.
    Trust(TrustQuestion),
}

impl Overlay {
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Returns the list that is open, also while the preview of an entry covers it.
    pub(super) fn picker_mut(&mut self) -> Option<&mut Picker> {
        match self {
            Self::Picker(picker) => Some(picker),
            Self::Pager(Pager { source: Source::Preview(picker), .. }) => Some(Arc::make_mut(picker)),
            _ => None,
        }
    }
}

/// The facts shown about the session.
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
    /// The cost, as far as it is known.
    pub(crate) dollars: Option<f64>,
    /// Tokens of the last request and its answer.
    pub(crate) context: u64,
}

/// Where a text in the input comes from that the user has not typed there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CameBack {
    #[default]
    Typed,
    /// From a rewind. Typing a slash replaces it.
    FromRewind,
    /// It was not sent. Typing a slash puts it aside until the command is given.
    Unsent,
}

/// A time, by default the present one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(pub(crate) Instant);

impl Default for Moment {
    fn default() -> Self {
        Self(Instant::now())
    }
}

/// The state of the interface.
#[derive(Debug, Default)]
pub(crate) struct App {
    pub(crate) now: Moment,
    pub(crate) size: (u16, u16),
    pub(crate) theme: Theme,
    pub(crate) themes: Themes,
    pub(crate) keys: KeyMap,
    /// The state of vi editing, if the user has enabled it.
    pub(crate) vi: Option<Vi>,
    /// The providers that accept a key.
    pub(crate) providers: Vec<(String, String)>,
    /// Whether no model has been chosen yet, so that nothing can be sent.
    pub(crate) without_model: bool,
    /// Whether the user has a status line command, the status that it got last, and its output.
    pub(crate) has_status_command: bool,
    pub(super) told_status: String,
    pub(crate) status_line: String,
    pub(crate) mode: Mode,
    /// The reasoning effort.
    pub(crate) effort: Option<Effort>,
    pub(crate) session: SessionInfo,
    pub(crate) editor: Editor,
    pub(crate) history: History,
    pub(crate) items: Vec<Item>,
    pub(crate) live: Live,
    pub(crate) work: Work,
    /// When the current work began.
    pub(crate) since: Moment,
    /// The usage and cost of the conversation at that time, in tokens and dollars.
    pub(crate) spent_before: (Usage, f64),
    pub(crate) todos: Vec<Todo>,
    /// Threads with a background run.
    pub(crate) background: Vec<String>,
    /// Messages that the run has not received yet.
    pub(crate) waiting: Vec<QueuedMessage>,
    /// Those of them that are saved, and the thread that they are saved with.
    pub(super) kept: (Option<String>, Vec<String>),
    /// The saved decisions, and the thread that they are saved with.
    pub(super) kept_decided: (Option<String>, Vec<KeptDecision>),
    pub(crate) questions: Questions,
    /// A plan that Enter carries out once it has been on the screen.
    pub(crate) plan: Option<Plan>,
    /// Whether the current turn revises a plan.
    pub(super) revises_plan: bool,
    pub(crate) overlay: Overlay,
    pub(crate) menu: Option<Menu>,
    /// The input for which the menu was closed.
    pub(super) closed: String,
    /// Decisions made before the user left the questions, for the next message.
    pub(super) left: Vec<(ActionRequest, DecisionRecord)>,
    /// A shell command that runs beside the run.
    pub(crate) background_shell: Option<ShellRun>,
    /// Output of the user's shell commands, for the next message.
    pub(super) context: Vec<String>,
    /// What went with the last message, in case that is not sent: output of commands, and decisions.
    pub(super) submitted: (Vec<String>, Vec<(ActionRequest, DecisionRecord)>),
    /// A hint that disappears with the next key press, or at `hint_ends`.
    pub(crate) hint: Option<String>,
    pub(super) hint_ends: Option<Instant>,
    /// When Ctrl+C was last pressed with nothing to stop.
    pub(super) last_interrupt: Option<Instant>,
    /// When the user last typed.
    pub(super) typed: Option<Instant>,
    /// Effects requested by the current update.
    pub(super) effects: Vec<Effect>,
    /// The thread to open once the current work has ended, or `None` in it for a new one.
    pub(super) next_thread: Option<Option<String>>,
    /// The number of items when the user asked to resume.
    pub(super) resumed_at: Option<usize>,
    /// Where the text in the input comes from, until the next key.
    pub(super) came_back: CameBack,
    /// The text that was not sent, while a command is typed in its place.
    pub(super) aside: Option<Editor>,
    /// The model to switch to when the current work has ended.
    pub(super) next_model: Option<String>,
    /// Whether the run is being stopped.
    pub(crate) stopping: bool,
    /// Whether the run has ended and waits for decisions.
    pub(super) waits: bool,
    /// Whether everything must be printed again.
    pub(crate) repaint: bool,
    /// Whether another conversation has replaced the printed one.
    pub(crate) reopened: bool,
    /// Whether debugging commands are available.
    pub(crate) debug: bool,
    /// Whether the run was resumed with decisions and not with a message.
    pub(super) is_resumed: bool,
    /// Whether the user's editor holds the text for a question.
    pub(super) edits_answer: bool,
    /// The text in the input before the history search.
    pub(super) before_search: String,
}

impl App {
    /// Creates the state of an empty conversation.
    pub(crate) fn new(
        size: (u16, u16),
        (themes, theme): (Themes, Theme),
        mode: Mode,
        session: SessionInfo,
        history: History,
    ) -> Self {
        let head = Item::Head {
            lines: vec![
                format!("deepagents {}", session.version),
                format!("{} · {}", session.model, session.directory),
                "/help shows commands and keys".to_owned(),
            ],
        };
        Self { size, theme, themes, mode, session, history, items: vec![head], ..Self::default() }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.work != Work::Nothing
    }

    /// Returns the time since an earlier one.
    pub(crate) fn elapsed_since(&self, earlier: Instant) -> Duration {
        self.now.0.saturating_duration_since(earlier)
    }

    /// Returns whether there is work that the user can stop: a run, or a shell command beside it.
    pub(crate) fn can_interrupt(&self) -> bool {
        self.is_busy() || self.background_shell.is_some()
    }

    /// Returns the notice for something that is not possible while work is in progress.
    pub(super) fn stop_first(&self) -> String {
        format!("stop what is in progress first ({})", self.keys.name(Action::Stop))
    }

    /// Returns whether the display changes without an event, such as by a clock or a spinner.
    pub(crate) fn is_moving(&self) -> bool {
        self.is_busy() && !self.waits && !self.theme.spoken
    }

    /// Returns when the display next changes by itself, apart from animations.
    pub(crate) fn wakes(&self) -> Option<Instant> {
        self.hint_ends
    }
}
