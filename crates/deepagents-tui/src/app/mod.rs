//! The state of the screens, and what events make of it.
//!
//! [`App::update`] is all there is of behaviour: it takes an [`Event`], changes the state and returns the [`Effect`]s that
//! somebody else carries out. It waits for nothing and opens nothing, so it is tested as it is.

pub(crate) mod commands;
mod complete;
pub(crate) mod event;
mod keys;
pub(crate) mod live;
pub(crate) mod menu;
pub(crate) mod pager;
pub(crate) mod picker;
pub(crate) mod questions;
mod run;
mod slash;
pub(crate) mod transcript;

use std::time::{Duration, Instant};

use crossterm::event::Event as TerminalEvent;
use deepagents::Usage;
use deepagents::channels::Todo;

use crate::input::{Editor, History};
use crate::policy::Mode;
use crate::theme::Theme;
use event::{Choices, Connected, Effect, Event, ListOf, Opened, Trusted};
use live::Live;
use menu::Menu;
use pager::Pager;
use picker::Picker;
use questions::Questions;
use transcript::Item;

/// How long a second Ctrl+C counts as one.
const TWICE: Duration = Duration::from_secs(2);

/// What is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Work {
    #[default]
    Nothing,
    /// A run.
    Run,
    /// A command of the person, as far as it has said something; whether the model is to see it.
    Shell { command: String, output: String, shared: bool },
    /// Something that has to be waited for, in words.
    Other(&'static str),
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
    /// A question of the program itself that `y` and `n` answer.
    Trust {
        of: Trusted,
        title: String,
        body: String,
    },
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
    pub(crate) mode: Mode,
    pub(crate) session: SessionInfo,
    pub(crate) editor: Editor,
    pub(crate) history: History,
    pub(crate) items: Vec<Item>,
    pub(crate) live: Live,
    pub(crate) work: Work,
    /// Since when something is under way.
    pub(crate) since: Instant,
    pub(crate) todos: Vec<Todo>,
    /// Messages that the run has not taken yet.
    pub(crate) waiting: Vec<String>,
    pub(crate) questions: Questions,
    pub(crate) overlay: Overlay,
    pub(crate) menu: Option<Menu>,
    /// The input for which a menu was closed.
    closed: String,
    /// What the person's commands said, for the next message.
    context: Vec<String>,
    /// A remark that goes away with the next key.
    pub(crate) hint: Option<String>,
    /// When Ctrl+C was pressed last with nothing to stop.
    last_interrupt: Option<Instant>,
    /// When something was typed last.
    typed: Option<Instant>,
    /// What is done once the run has ended.
    after: Vec<Effect>,
    /// Whether the run is being ended.
    pub(crate) stopping: bool,
    /// Whether the run has ended and waits for decisions.
    waits: bool,
    /// Whether what was printed is to be printed anew.
    pub(crate) repaint: bool,
    /// Whether another conversation has taken the place of the one that was printed.
    pub(crate) reopened: bool,
    /// Whether the person's debugging commands are there.
    pub(crate) debug: bool,
    /// Where the search in the history began.
    before_search: String,
}

impl App {
    /// An empty conversation.
    pub(crate) fn new(size: (u16, u16), theme: Theme, mode: Mode, session: SessionInfo, history: History) -> Self {
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
            mode,
            session,
            editor: Editor::default(),
            history,
            items: vec![head],
            live: Live::default(),
            work: Work::Nothing,
            since: now,
            todos: Vec::new(),
            waiting: Vec::new(),
            questions: Questions::default(),
            overlay: Overlay::None,
            menu: None,
            closed: String::new(),
            context: Vec::new(),
            hint: None,
            last_interrupt: None,
            typed: None,
            after: Vec::new(),
            stopping: false,
            waits: false,
            repaint: false,
            reopened: false,
            debug: false,
            before_search: String::new(),
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.work != Work::Nothing
    }

    /// Whether something moves without an event: a clock, a spinner.
    pub(crate) fn is_moving(&self) -> bool {
        self.is_busy() && !self.waits
    }

    /// Takes an event in, at the time [`now`](Self::now).
    pub(crate) fn update(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Terminal(event) => return self.terminal(event),
            Event::Tick => {}
            Event::Drawn => self.questions.drawn(),
            Event::Connected(Ok(connected)) => self.connected(connected),
            Event::Connected(Err(problem)) => {
                self.note(problem.clone(), true);
                self.session.problem = Some(problem);
            }
            Event::Run(event) => self.run_event(&event),
            Event::ApprovalRequested(question) => return self.asked(*question),
            Event::RunEnded(end) => return self.run_ended(*end),
            Event::Opened(Ok(opened)) => return self.opened(*opened),
            Event::Watched(opened) => self.watched(*opened),
            Event::Opened(Err(problem)) => {
                self.idle();
                self.note(problem, true);
            }
            Event::Choose(Ok(choices)) => self.choose(choices),
            Event::Choose(Err(problem)) => self.note(problem, true),
            Event::Files { query, found } => self.files_found(&query, found),
            Event::ShellOutput(text) => {
                if let Work::Shell { output, .. } = &mut self.work {
                    output.push_str(&text);
                }
            }
            Event::ShellEnded { code } => self.shell_ended(code),
            Event::Compacted(result) => {
                self.idle();
                match result {
                    Ok(text) => self.note(text, false),
                    Err(problem) => self.note(problem, true),
                }
                return self.next_waiting();
            }
            Event::Card { title, body } => self.items.push(Item::Card { title, body }),
            Event::Notice { text, bad } => self.note(text, bad),
            Event::EditorClosed(Ok(text)) => self.editor.set(text.trim_end_matches('\n')),
            Event::EditorClosed(Err(problem)) => self.note(problem, true),
            Event::Trust { of, title, body } => self.overlay = Overlay::Trust { of, title, body },
        }
        Vec::new()
    }

    fn terminal(&mut self, event: TerminalEvent) -> Vec<Effect> {
        match event {
            TerminalEvent::Key(key) => self.key(key),
            TerminalEvent::Paste(text) => self.pasted(&text),
            TerminalEvent::Resize(columns, rows) => {
                if self.size != (columns, rows) {
                    self.size = (columns.max(1), rows.max(1));
                    self.repaint = true;
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    pub(crate) fn note(&mut self, text: impl Into<String>, bad: bool) {
        self.items.push(Item::Note { text: text.into(), bad });
    }

    fn card(&mut self, title: impl Into<String>, body: impl Into<String>) {
        self.items.push(Item::Card { title: title.into(), body: body.into() });
    }

    fn connected(&mut self, connected: Connected) {
        if self.session.model != connected.model {
            self.session.model.clone_from(&connected.model);
        }
        for note in &connected.notes {
            self.note(note.clone(), false);
        }
        if !connected.offered.is_empty() && self.session.connected.is_none() {
            let names: Vec<String> =
                connected.offered.iter().map(|offered| format!("{} {}", offered.kind, offered.name)).collect();
            let names = crate::text::shorten(&names.join(", "), 200);
            self.note(format!("this directory brings {names}: not in use before you agree with /trust"), false);
        }
        self.session.problem = None;
        self.session.connected = Some(connected);
    }

    fn begin(&mut self, work: Work) {
        (self.work, self.since) = (work, self.now);
    }

    fn idle(&mut self) {
        self.work = Work::Nothing;
        (self.stopping, self.waits) = (false, false);
    }

    /// A thread takes the place of what was shown.
    fn opened(&mut self, opened: Opened) -> Vec<Effect> {
        self.idle();
        self.live = Live::default();
        // What was said by the program itself before the first thread is no reason to clear the screen.
        self.repaint |= self.items.iter().skip(1).any(|item| !matches!(item, Item::Note { .. }));
        self.reopened = true;
        self.items.truncate(1);
        self.items.extend(opened.items);
        self.todos = opened.todos;
        self.session.thread = opened.thread;
        (self.session.usage, self.session.context) = (opened.usage, opened.context);
        self.questions.clear();
        self.waiting.clear();
        if let Some(note) = opened.note {
            self.note(note, false);
        }
        if let Some(input) = opened.input {
            self.editor.set(input);
        }
        for question in opened.questions {
            self.questions.ask(question, None);
        }
        if !self.questions.is_empty() {
            self.begin(Work::Run);
            self.waits = true;
        }
        Vec::new()
    }

    /// Another program has gone on with the thread: what it added is shown.
    fn watched(&mut self, opened: Opened) {
        if self.is_busy() || self.session.thread != opened.thread {
            return;
        }
        let known = self.items.iter().filter(|item| item.is_of_thread()).count();
        self.items.extend(opened.items.into_iter().skip(known));
        self.todos = opened.todos;
        (self.session.usage, self.session.context) = (opened.usage, opened.context);
        if let Some(note) = opened.note {
            self.note(note, false);
        }
    }

    fn choose(&mut self, choices: Choices) {
        if choices.rows.is_empty() {
            let text = match choices.of {
                ListOf::Threads => "there are no earlier threads of this directory",
                ListOf::Checkpoints => "there is no message to go back to",
                ListOf::Models => "no model is known by name; give one: /model NAME",
            };
            self.note(text, false);
            return;
        }
        self.overlay = Overlay::Picker(Picker::new(choices));
    }

    fn shell_ended(&mut self, code: Option<i32>) {
        if let Work::Shell { command, output, shared } = std::mem::take(&mut self.work) {
            if shared {
                let end = code.map_or("it was stopped".to_owned(), |code| format!("exit code {code}"));
                self.context
                    .push(format!("The person ran `{command}` in the directory ({end}). Its output:\n{output}"));
            }
            self.items.push(Item::Shell { command, output, code, shared });
        }
        self.idle();
    }

    /// Sends what was typed while something else than a run was under way.
    fn next_waiting(&mut self) -> Vec<Effect> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let text = std::mem::take(&mut self.waiting).join("\n\n");
        self.send(text, Vec::new())
    }

    /// Sends a message: begins a run, or tells the one under way.
    fn send(&mut self, text: String, skills: Vec<String>) -> Vec<Effect> {
        if self.work == Work::Run {
            self.waiting.push(text.clone());
            return vec![Effect::Steer(text)];
        }
        if self.is_busy() {
            self.waiting.push(text);
            return Vec::new();
        }
        self.items.push(Item::User(text.clone()));
        self.begin(Work::Run);
        "starting".clone_into(&mut self.live.activity);
        vec![Effect::Submit { text, context: std::mem::take(&mut self.context), skills }]
    }
}
