//! The state of the screens, and what events make of it.
//!
//! [`App::update`] is all there is of behaviour: it takes an [`Event`], changes the state and returns the [`Effect`]s that
//! somebody else carries out. It waits for nothing and opens nothing, so it is tested as it is.

mod cards;
pub(crate) mod commands;
mod complete;
pub(crate) mod event;
mod export;
pub(crate) mod form;
mod keys;
pub(crate) mod live;
pub(crate) mod menu;
mod onboarding;
pub(crate) mod pager;
pub(crate) mod pending;
pub(crate) mod picker;
mod picker_keys;
mod question_keys;
mod run;
mod slash;
pub(crate) mod transcript;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::Event as TerminalEvent;
use deepagents::Usage;
use deepagents::channels::Todo;
use serde_json::json;

use crate::host::Effort;
use crate::input::{Editor, History, Vi};
use crate::policy::Mode;
use crate::preferences::KeyMap;
use crate::theme::{Theme, Themes};
use event::{Choices, Connected, Effect, Event, ListOf, Opened, PendingApproval, Trusted};
use live::Live;
use menu::Menu;
use pager::{Pager, Source};
use pending::Questions;
use picker::Picker;
use transcript::{Item, forget_pictures};

/// What the agent is told for a plan that was approved.
const CARRY_OUT: &str = "Carry out the plan.";
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

/// A message that the run has not taken yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedMessage {
    pub(crate) text: String,
    /// Whether the run was told; another one waits for its end.
    pub(crate) told: bool,
}

impl QueuedMessage {
    /// For after what is under way.
    pub(crate) fn until_the_end(text: String) -> Self {
        Self { text, told: false }
    }
}

/// A plan that was laid out in the mode for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    shown: bool,
}

/// Messages as one.
fn joined(waiting: Vec<QueuedMessage>, between: &str) -> String {
    waiting.into_iter().map(|waiting| waiting.text).collect::<Vec<_>>().join(between)
}

/// Whether messages that are shown are not of the thread any more. One that has lost its beginning to a summary has not gone
/// back.
fn went_back(shown: &[Item], thread: &[Item]) -> bool {
    let said = |items: &[Item]| -> Vec<String> {
        let said = items.iter().filter_map(|item| match item {
            Item::User(text) => Some(text.trim().to_owned()),
            _ => None,
        });
        said.collect()
    };
    let (shown, thread) = (said(shown), said(thread));
    !thread.starts_with(&shown) && (shown.starts_with(&thread) || !shown.ends_with(&thread))
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
    told_status: String,
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
    pub(crate) questions: Questions,
    /// A plan that Enter carries out, once it has been on the screen.
    pub(crate) plan: Option<Plan>,
    /// Whether the present turn answers what was said about a plan.
    revises_plan: bool,
    pub(crate) overlay: Overlay,
    pub(crate) menu: Option<Menu>,
    /// The input for which a menu was closed.
    closed: String,
    /// What the person's commands said, for the next message.
    context: Vec<String>,
    /// A remark that goes away with the next key, and after a while where it holds no longer.
    pub(crate) hint: Option<String>,
    hint_ends: Option<Instant>,
    /// When Ctrl+C was pressed last with nothing to stop.
    last_interrupt: Option<Instant>,
    /// When something was typed last.
    typed: Option<Instant>,
    /// What is done once the run has ended.
    after: Vec<Effect>,
    /// How much of the conversation there was when it was asked to go on.
    resumed_at: Option<usize>,
    /// Whether what is in the input was put there by going back, or was not sent: a command takes its place.
    came_back: bool,
    /// The model to use then.
    next_model: Option<String>,
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
            questions: Questions::default(),
            plan: None,
            revises_plan: false,
            overlay: Overlay::None,
            menu: None,
            closed: String::new(),
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
            before_search: String::new(),
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.work != Work::Nothing
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
                Source::Conversation | Source::Items { .. } => false,
            },
            Overlay::Picker(_) | Overlay::Secret { .. } | Overlay::Trust { .. } => false,
        }
    }

    /// Takes an event in, at the time [`now`](Self::now).
    pub(crate) fn update(&mut self, event: Event) -> Vec<Effect> {
        if self.hint_ends.is_some_and(|end| end <= self.now) {
            self.drop_hint();
        }
        let mut effects = self.take(event);
        effects.extend(self.use_next_model());
        if self.has_status_command {
            let status = self.status();
            if status != self.told_status {
                self.told_status.clone_from(&status);
                effects.push(Effect::StatusLine(status));
            }
        }
        effects
    }

    /// How things stand, as JSON for the person's command.
    fn status(&self) -> String {
        let connected = self.session.connected.as_ref();
        let cost = connected.and_then(|connected| connected.price).map(|price| price.cost(self.session.usage));
        json!({
            "model": self.session.model,
            "mode": self.mode.as_str(),
            "directory": self.session.directory,
            "thread": self.session.thread,
            "context_tokens": self.session.context,
            "context_window": connected.and_then(|connected| connected.window),
            "input_tokens": self.session.usage.input,
            "output_tokens": self.session.usage.output,
            "cost": cost,
            "busy": self.is_busy(),
            "waits": !self.questions.is_empty(),
        })
        .to_string()
    }

    fn take(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Terminal(event) => return self.terminal(event),
            Event::Tick => {}
            Event::Drawn => {
                if self.shows_question() {
                    self.questions.drawn(self.editor.text());
                }
                if let Some(plan) = &mut self.plan {
                    plan.shown = true;
                }
            }
            Event::Connected(Ok(connected)) => self.connected(*connected),
            Event::Connected(Err(problem)) => {
                self.note(problem.clone(), true);
                self.session.problem = Some(problem);
            }
            Event::Run(event) => self.run_event(&event),
            Event::ApprovalRequested(question) => return self.asked(*question),
            Event::RunEnded(end) => return self.run_ended(*end),
            Event::SentBack { thread } => return self.sent_back(thread),
            Event::BackgroundEnded { thread, what, waits } => {
                self.background.retain(|known| *known != thread);
                self.note(format!("in the background: {what}; /threads opens it"), waits);
                return vec![Effect::Notify(what)];
            }
            Event::Opened(Ok(opened)) => return self.opened(*opened),
            Event::Watched(opened) => self.watched(*opened),
            Event::Opened(Err(problem)) => {
                self.idle();
                self.note(problem, true);
            }
            Event::Choose(Ok(choices)) => return self.choose(choices),
            Event::Choose(Err(problem)) => self.note(problem, true),
            Event::Refreshed(choices) => {
                if let Overlay::Picker(picker) = &mut self.overlay {
                    picker.refresh(choices);
                }
                return self.preview();
            }
            Event::Previewed { of, key, items } => {
                if let Overlay::Picker(picker) = &mut self.overlay {
                    picker.previewed(of, key, items);
                }
            }
            Event::EffortSet(Ok(effort)) => {
                self.effort = effort;
                let text = effort.map_or("as the model does by itself", Effort::as_str);
                self.note(format!("effort: {text}"), false);
            }
            Event::EffortSet(Err(problem)) => self.note(problem, true),
            Event::StatusLine(line) => self.status_line = line,
            Event::KeySaved(Ok(model)) => {
                self.note("the key is kept; you can begin", false);
                return self.use_model(&model);
            }
            Event::KeySaved(Err(problem)) => {
                self.note(problem, true);
                self.choose_provider();
            }
            Event::Files { query, found } => self.files_found(&query, found),
            Event::ShellOutput(text) => {
                if let Work::Shell { output, .. } = &mut self.work {
                    output.push_str(&text);
                }
            }
            Event::ShellEnded { code } => return self.shell_ended(code),
            Event::Compacted(result) => {
                self.idle();
                match result {
                    Ok(text) => self.note(text, false),
                    Err(problem) => self.note(problem, true),
                }
                return self.next_waiting();
            }
            Event::Cost { path, dollars } => self.live.cost(&path, dollars),
            Event::Retracted(texts) => self.take_back(&texts),
            Event::Transcript { title, items } => {
                self.overlay = Overlay::Pager(Pager::of(Source::Items { title, items: Arc::new(items) }));
            }
            Event::Card { title, body } => self.items.push(Item::Card { title, body }),
            Event::Pictures(pictures) => {
                self.items.extend(pictures.into_iter().map(Item::Picture));
                forget_pictures(&mut self.items);
            }
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

    fn drop_hint(&mut self) {
        (self.hint, self.hint_ends) = (None, None);
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
        self.without_model = false;
        self.session.connected = Some(connected);
        // What is being typed may be one of its commands.
        if self.editor.text().starts_with('/') && !self.editor.text().contains('@') {
            drop(self.complete());
        }
    }

    fn begin(&mut self, work: Work) {
        (self.work, self.since, self.spent_before) = (work, self.now, self.session.usage);
    }

    fn idle(&mut self) {
        self.work = Work::Nothing;
        (self.stopping, self.waits) = (false, false);
    }

    /// The run goes on in the background, and a new conversation can begin.
    fn sent_back(&mut self, thread: String) -> Vec<Effect> {
        let short: String = thread.chars().take(8).collect();
        self.background.push(thread);
        let waiting = std::mem::take(&mut self.waiting);
        let effects = self.opened(Opened::default());
        self.note(
            format!("it goes on in the background: /resume {short} shows it, as does `deepagents attach {short}`"),
            false,
        );
        // What it has not taken yet was told to it, or comes back.
        if !waiting.is_empty() && self.editor.is_empty() {
            self.editor.set(joined(waiting, "\n"));
        }
        effects
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
        self.plan = None;
        // Why nothing can be run is still so.
        if let Some(problem) = self.session.problem.clone() {
            self.note(problem, true);
        }
        if let Some(note) = opened.note {
            self.note(note, false);
        }
        if let Some(input) = opened.input {
            self.editor.set(input);
            self.came_back = true;
        }
        self.questions_wait(opened.questions);
        Vec::new()
    }

    /// Another program has gone on with the thread: what it added is shown.
    fn watched(&mut self, opened: Opened) {
        if self.session.thread != opened.thread {
            return;
        }
        // What waits here was decided there.
        if self.waits {
            self.questions.clear();
            self.idle();
        }
        if self.is_busy() {
            return;
        }
        if went_back(&self.items, &opened.items) {
            (self.repaint, self.reopened) = (true, true);
            self.items.truncate(1);
            self.items.extend(opened.items);
            self.note("another program went back in this thread; this is what is left", false);
        } else {
            let known = self.items.iter().filter(|item| item.is_of_thread()).count();
            let added: Vec<Item> = opened.items.into_iter().skip(known).collect();
            if added.is_empty() && opened.note.is_none() && opened.questions.is_empty() {
                return;
            }
            self.items.extend(added);
        }
        self.todos = opened.todos;
        (self.session.usage, self.session.context) = (opened.usage, opened.context);
        if let Some(note) = opened.note {
            self.note(note, false);
        }
        self.questions_wait(opened.questions);
    }

    /// Asks what a thread waits for; nothing runs meanwhile.
    fn questions_wait(&mut self, questions: Vec<PendingApproval>) {
        for question in questions {
            self.questions.ask(question, None);
        }
        if !self.questions.is_empty() {
            self.begin(Work::Run);
            self.waits = true;
        }
    }

    fn choose(&mut self, choices: Choices) -> Vec<Effect> {
        if choices.rows.is_empty() {
            let text = match choices.of {
                ListOf::Threads => "there are no earlier threads of this directory",
                ListOf::Checkpoints => "there is no message to go back to",
                ListOf::Models => "no model is known by name; give one: /model NAME",
                ListOf::SubAgents => "there were no sub-agents in this conversation",
                ListOf::Efforts | ListOf::Themes | ListOf::Providers => "there is nothing to choose from",
            };
            self.note(text, false);
            return Vec::new();
        }
        self.overlay = Overlay::Picker(Picker::new(choices));
        self.preview()
    }

    /// Asks for a look at what is selected, where there is one.
    pub(super) fn preview(&self) -> Vec<Effect> {
        let Overlay::Picker(picker) = &self.overlay else { return Vec::new() };
        picker.wants_preview().map(|(of, key)| Effect::Preview { of, key }).into_iter().collect()
    }

    fn shell_ended(&mut self, code: Option<i32>) -> Vec<Effect> {
        if let Work::Shell { command, output, shared } = std::mem::take(&mut self.work) {
            if shared {
                let end = code.map_or("it was stopped".to_owned(), |code| format!("exit code {code}"));
                self.context
                    .push(format!("The person ran `{command}` in the directory ({end}). Its output:\n{output}"));
            }
            self.items.push(Item::Shell { command, output, code, shared });
        }
        self.idle();
        let after = std::mem::take(&mut self.after);
        match code {
            _ if !after.is_empty() => {}
            None => self.give_back(),
            Some(_) => return self.next_waiting(),
        }
        after
    }

    /// Sends what was typed while something else than a run was under way.
    fn next_waiting(&mut self) -> Vec<Effect> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let text = joined(std::mem::take(&mut self.waiting), "\n\n");
        // The next request has the model that was chosen before it.
        let mut effects = self.use_next_model();
        effects.extend(self.send(text, Vec::new()));
        effects
    }

    /// Carries out the plan that is on the screen: what changes something is asked about, unless another mode was chosen
    /// since.
    fn carry_out(&mut self) -> Vec<Effect> {
        let typing = self.typed.is_some_and(|last| self.now.saturating_duration_since(last) < pending::PAUSE);
        if !self.plan.is_some_and(|plan| plan.shown) || typing || self.is_busy() {
            return Vec::new();
        }
        let mut effects = if self.mode == Mode::Plan { self.set_mode(Mode::Ask) } else { Vec::new() };
        self.plan = None;
        effects.extend(self.send(CARRY_OUT.to_owned(), Vec::new()));
        effects
    }

    /// Sends a message: begins a run, or tells the one under way.
    fn send(&mut self, text: String, skills: Vec<String>) -> Vec<Effect> {
        let plan = self.plan.take();
        if self.work == Work::Run {
            self.waiting.push(QueuedMessage { text: text.clone(), told: true });
            return vec![Effect::Steer(text)];
        }
        if self.is_busy() {
            self.waiting.push(QueuedMessage::until_the_end(text));
            return Vec::new();
        }
        if self.without_model {
            // What was typed is kept until it can be sent.
            self.editor.set(text);
            self.choose_provider();
            return Vec::new();
        }
        self.revises_plan = plan.is_some();
        self.items.push(Item::User(text.clone()));
        self.begin(Work::Run);
        "starting".clone_into(&mut self.live.activity);
        vec![Effect::Submit { text, context: std::mem::take(&mut self.context), skills }]
    }
}
