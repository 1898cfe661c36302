//! What the person says: it is sent at once, waits for what is under way, or comes back into the input.

use super::event::Effect;
use super::pending;
use super::state::{App, Work};
use super::transcript::Item;
use crate::policy::Mode;

/// What the agent is told for a plan that was approved.
const CARRY_OUT: &str = "Carry out the plan.";

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
    pub(super) shown: bool,
}

impl App {
    /// Sends a message: begins a run, or tells the one under way.
    pub(super) fn send(&mut self, text: String, skills: Vec<String>) -> Vec<Effect> {
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
        let (context, decided) = (std::mem::take(&mut self.context), std::mem::take(&mut self.left));
        vec![Effect::Submit { text, context, skills, decided }]
    }

    /// Carries out the plan that is on the screen: what changes something is asked about, unless another mode was chosen
    /// since.
    pub(super) fn carry_out(&mut self) -> Vec<Effect> {
        let typing = self.typed.is_some_and(|last| self.now.saturating_duration_since(last) < pending::PAUSE);
        if !self.plan.is_some_and(|plan| plan.shown) || typing || self.is_busy() {
            return Vec::new();
        }
        let mut effects = if self.mode == Mode::Plan { self.set_mode(Mode::Ask) } else { Vec::new() };
        self.plan = None;
        effects.extend(self.send(CARRY_OUT.to_owned(), Vec::new()));
        effects
    }

    /// Sends what was typed while something else than a run was under way.
    pub(super) fn next_waiting(&mut self) -> Vec<Effect> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let text = joined(std::mem::take(&mut self.waiting), "\n\n");
        // The next request has the model that was chosen before it.
        let mut effects = self.use_next_model();
        effects.extend(self.send(text, Vec::new()));
        effects
    }

    /// Has what waits kept with its thread, so that a program that is killed has not lost it.
    pub(super) fn keep_waiting(&mut self) -> Vec<Effect> {
        let thread = &self.session.thread;
        let is_moved = !self.kept.1.is_empty() && self.kept.0 != *thread;
        let is_same = self.waiting.iter().map(|waiting| &waiting.text).eq(&self.kept.1);
        if is_same && !is_moved {
            return Vec::new();
        }
        let mut effects = Vec::new();
        if let (Some(thread), true) = (self.kept.0.take(), is_moved) {
            effects.push(Effect::KeepWaiting { thread, texts: Vec::new() });
        }
        self.kept = (None, Vec::new());
        // A thread that has no id yet has it soon.
        if let Some(thread) = thread.clone() {
            let texts: Vec<String> = self.waiting.iter().map(|waiting| waiting.text.clone()).collect();
            self.kept = (Some(thread.clone()), texts.clone());
            effects.push(Effect::KeepWaiting { thread, texts });
        }
        effects
    }

    /// Messages that nobody has taken go back into the input.
    pub(super) fn give_back(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let texts = std::mem::take(&mut self.waiting);
        self.edit_again(texts);
    }

    /// Messages that were taken back from the run go into the input, with those that it was not told yet.
    pub(super) fn take_back(&mut self, retracted: &[String]) {
        let of_run = |waiting: &QueuedMessage| waiting.told && !retracted.contains(&waiting.text);
        let (taken, back) = std::mem::take(&mut self.waiting).into_iter().partition(of_run);
        self.waiting = taken;
        self.edit_again(back);
    }

    /// Puts messages before what is in the input.
    pub(super) fn edit_again(&mut self, mut messages: Vec<QueuedMessage>) {
        let typed = self.editor.take();
        if !typed.is_empty() {
            messages.push(QueuedMessage::until_the_end(typed));
        }
        self.editor.set(joined(messages, "\n"));
    }
}

/// Messages as one.
pub(super) fn joined(waiting: Vec<QueuedMessage>, between: &str) -> String {
    waiting.into_iter().map(|waiting| waiting.text).collect::<Vec<_>>().join(between)
}
