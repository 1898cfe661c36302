//! The state of the interface and its reaction to events.
//!
//! [`App::update`] holds all behaviour: it takes an [`Event`], changes the state and returns the [`Effect`]s for the
//! caller to carry out, which the functions behind it request with `App::request`. It does no I/O and never waits, so
//! tests call it directly.

mod cards;
pub(crate) mod commands;
mod complete;
pub(crate) mod converted;
pub(crate) mod decided;
mod edited_call;
pub(crate) mod effect;
pub(crate) mod event;
mod export;
pub(crate) mod field;
pub(crate) mod form;
mod keys;
pub(crate) mod live;
pub(crate) mod menu;
mod messages;
mod model;
mod onboarding;
pub(crate) mod pager;
mod pager_keys;
pub(crate) mod pending;
pub(crate) mod picker;
mod picker_keys;
mod question_keys;
mod reading;
mod run;
mod search;
mod shell_runs;
mod slash;
mod spending;
mod state;
mod status;
mod thread;
pub(crate) mod transcript;

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::Event as TerminalEvent;

use effect::Effect;
use event::{Connected, Event};
pub(crate) use messages::QueuedMessage;
use pager::{Pager, Source};
pub(crate) use reading::TrustQuestion;
pub(crate) use state::{App, Moment, Overlay, SessionInfo, ShellRun, Work};
use transcript::{Item, Picture, forget_pictures};

/// The interval in which a second Ctrl+C quits.
const QUIT_INTERVAL: Duration = Duration::from_secs(2);

impl App {
    /// Handles an event at the time [`now`](Self::now).
    pub(crate) fn update(&mut self, event: Event) -> Vec<Effect> {
        if self.hint_ends.is_some_and(|end| end <= self.now.0) {
            self.drop_hint();
        }
        let counts = self.has_status_command && spending::is_spent_anew(&event);
        self.take(event);
        if counts {
            self.request(Effect::Count);
        }
        self.use_next_model();
        self.change_thread_when_idle();
        self.keep_waiting();
        self.keep_decided();
        if self.has_status_command {
            let status = self.status();
            if status != self.told_status {
                self.told_status.clone_from(&status);
                self.request(Effect::StatusLine(status));
            }
        }
        std::mem::take(&mut self.effects)
    }

    /// Requests an effect, which the current update returns.
    fn request(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Terminal(TerminalEvent::Key(key)) => {
                self.key(key);
                self.bring_back();
            }
            Event::Terminal(TerminalEvent::Paste(text)) => self.pasted(&text),
            Event::Terminal(TerminalEvent::Resize(columns, rows)) => {
                self.repaint |= self.size != (columns, rows);
                self.size = (columns.max(1), rows.max(1));
            }
            Event::Terminal(_) => {}
            Event::Tick => {}
            Event::Drawn => self.drawn(),
            Event::Connected(Ok(connected)) => self.connected(*connected),
            Event::Connected(Err(problem)) => {
                self.note(problem.clone(), true);
                self.session.problem = Some(problem);
            }
            Event::ModelRefused { name, problem, kept } => self.model_refused(&name, problem, kept),
            Event::Run(event) => self.run_event(&event),
            Event::ApprovalRequested(question) => self.asked(*question),
            Event::RunEnded(end) => self.run_ended(*end),
            Event::MovedToBackground { thread } => self.moved_to_background(thread),
            Event::BackgroundEnded { thread, what, waits } => self.background_ended(&thread, what, waits),
            Event::Opened(Ok(opened)) => self.opened(*opened),
            Event::Watched { opened, items } => self.watched(*opened, items),
            Event::ThreadChangedElsewhere(opened) => self.thread_changed_elsewhere(opened.map(|opened| *opened)),
            Event::Opened(Err(problem)) => {
                self.idle();
                self.note(problem, true);
                self.give_back();
            }
            Event::Choose(choices) => self.choose(choices),
            Event::Refreshed(choices) => self.refreshed(choices),
            Event::Previewed { of, key, items } => {
                if let Some(picker) = self.overlay.picker_mut() {
                    picker.previewed(of, key, items);
                }
            }
            Event::EffortSet(effort) => self.effort_set(effort),
            Event::StatusLine(line) => self.status_line = line,
            Event::KeySaved(saved) => self.key_saved(saved),
            Event::Files { query, found } => self.files_found(&query, found),
            Event::ShellOutput(text) => self.shell_output(&text),
            Event::ShellEnded { code } => self.shell_ended(code),
            Event::Compacted(result) => self.compacted(result),
            Event::Cost { path, dollars } => self.cost(&path, dollars),
            Event::Counted { thread, usage, dollars } => self.counted(thread.as_deref(), usage, dollars),
            Event::Retracted(texts) => self.take_back(&texts),
            Event::Transcript { title, items } => self.show_items(title, items),
            Event::Card { title, body } => self.items.push(Item::Card { title, body }),
            Event::Pictures(pictures) => self.add_pictures(pictures),
            Event::Notice { text, bad } => self.note(text, bad),
            Event::EditorClosed(edited) => self.edited(edited),
            Event::Trust { of, title, body } => {
                self.overlay = Overlay::Trust(TrustQuestion::new(of, title, body));
            }
        }
    }

    /// Marks what the last frame has shown.
    fn drawn(&mut self) {
        match &mut self.overlay {
            Overlay::Trust(question) => question.drawn(),
            Overlay::Pager(pager) => pager.drawn(),
            _ => {}
        }
        self.question_drawn();
        if let Some(plan) = &mut self.plan {
            plan.shown = true;
        }
    }

    fn compacted(&mut self, result: Result<String, String>) {
        let interrupted = self.stopping;
        self.idle();
        match result {
            Ok(text) => self.note(text, false),
            Err(problem) => self.note(problem, true),
        }
        if interrupted { self.give_back() } else { self.next_waiting() }
    }

    fn show_items(&mut self, title: String, items: Vec<Item>) {
        self.overlay = Overlay::Pager(Pager::of(Source::Items { title, items: Arc::new(items) }));
    }

    fn add_pictures(&mut self, pictures: Vec<Picture>) {
        self.items.extend(pictures.into_iter().map(Item::Picture));
        forget_pictures(&mut self.items);
    }

    /// Takes over the text from the user's editor.
    fn edited(&mut self, edited: Result<String, String>) {
        let of_answer = std::mem::take(&mut self.edits_answer);
        match edited {
            Ok(text) => {
                let text = text.trim_end_matches('\n');
                match self.questions.written().filter(|_| of_answer) {
                    Some(answer) => answer.set(text),
                    None if !of_answer || self.editor.is_empty() => self.editor.set(text),
                    None => self.note("the question is no longer open; what you wrote for it is not used", true),
                }
            }
            Err(problem) => self.note(problem, true),
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
        self.session.model.clone_from(&connected.model);
        for note in &connected.notes {
            self.note(note.clone(), false);
        }
        if !connected.offered.is_empty() && self.session.connected.is_none() {
            let names: Vec<String> =
                connected.offered.iter().map(|offered| format!("{} {}", offered.kind, offered.name)).collect();
            let names = crate::text::shorten(&names.join(", "), 200);
            self.note(format!("this directory contains {names}: not used until you agree with /trust"), false);
        }
        self.session.problem = None;
        self.without_model = false;
        self.session.connected = Some(connected);
        // The text being typed may be the beginning of one of the agent's commands.
        if self.editor.text().starts_with('/') && !self.editor.text().contains('@') {
            self.complete();
        }
    }

    pub(crate) fn begin(&mut self, work: Work) {
        (self.work, self.since) = (work, self.now);
        self.spent_before = (self.session.usage, self.session.dollars.unwrap_or_default());
        self.is_resumed = false;
    }

    fn idle(&mut self) {
        self.work = Work::Nothing;
        (self.stopping, self.waits) = (false, false);
    }
}
