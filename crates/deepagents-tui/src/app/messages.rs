//! Messages of the user: they are sent at once, wait for the current work, or return to the input.

use super::effect::Effect;
use super::pending;
use super::state::{App, CameBack, Work};
use super::transcript::Item;
use crate::policy::Mode;

/// The message sent to carry out an approved plan.
const CARRY_OUT: &str = "Carry out the plan.";

/// A message that the run has not received yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedMessage {
    pub(crate) text: String,
    pub(super) to: Recipient,
}

/// The run that gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recipient {
    /// The present run, to which it was sent.
    Run,
    /// Whichever run continues the thread, with which it is stored: the present run ended with a question before it
    /// delivered the message.
    Thread,
    /// The present run, once it is resumed with the decisions that it waits for.
    ResumedRun,
    /// The next run.
    NextRun,
}

impl Recipient {
    /// Returns whether the message has left the interface.
    pub(super) fn is_sent(self) -> bool {
        matches!(self, Self::Run | Self::Thread)
    }
}

impl QueuedMessage {
    /// Creates a message that waits for the end of the current work.
    pub(crate) fn after_current_work(text: String) -> Self {
        Self { text, to: Recipient::NextRun }
    }
}

/// A plan made in plan mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(super) shown: bool,
}

impl App {
    /// Sends a message: starts a run, or steers the current one.
    pub(super) fn send(&mut self, text: String, skills: Vec<String>) {
        let plan = self.plan.take();
        if self.work == Work::Run {
            let to = if self.waits { Recipient::ResumedRun } else { Recipient::Run };
            self.waiting.push(QueuedMessage { text: text.clone(), to });
            if to == Recipient::Run {
                self.request(Effect::Steer(text));
            }
            return;
        }
        if self.is_busy() {
            return self.waiting.push(QueuedMessage::after_current_work(text));
        }
        if self.without_model {
            // The text stays in the input until it can be sent.
            self.editor.put_before(&text);
            return self.choose_provider();
        }
        self.revises_plan = plan.is_some();
        self.items.push(Item::User(text.clone()));
        self.begin(Work::Run);
        "starting".clone_into(&mut self.live.activity);
        let (context, decided) = (std::mem::take(&mut self.context), std::mem::take(&mut self.left));
        self.submitted = (context.clone(), decided.clone());
        self.request(Effect::Submit { text, context, skills, decided });
    }

    /// Carries out the plan on the screen. Changes need approval, unless the user has chosen another mode since.
    pub(super) fn carry_out_plan(&mut self) {
        let typing = self.typed.is_some_and(|last| self.elapsed_since(last) < pending::TYPING_PAUSE);
        if !self.plan.is_some_and(|plan| plan.shown) || typing || self.is_busy() {
            return;
        }
        if self.mode == Mode::Plan {
            self.set_mode(Mode::Ask);
        }
        self.plan = None;
        self.send(CARRY_OUT.to_owned(), Vec::new());
    }

    /// Sends the messages typed while other work was in progress. If the thread is about to change, they return to the
    /// input.
    pub(super) fn next_waiting(&mut self) {
        if self.next_thread.is_some() {
            return self.give_back();
        }
        let next: Vec<_> = self.waiting.extract_if(.., |waiting| waiting.to != Recipient::Thread).collect();
        if next.is_empty() {
            return;
        }
        let text = joined(next, "\n\n");
        // The next request uses the model chosen before it.
        self.use_next_model();
        self.send(text, Vec::new());
    }

    /// Sends the messages written at the questions to the run that is resumed.
    pub(super) fn steer_resumed(&mut self) {
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.to == Recipient::ResumedRun) {
            waiting.to = Recipient::Run;
            self.effects.push(Effect::Steer(waiting.text.clone()));
        }
    }

    /// Removes a message that the run has delivered. The agent may have redacted it; messages are delivered in order.
    pub(super) fn delivered(&mut self, text: &str) {
        let sent = || self.waiting.iter().enumerate().filter(|(_, waiting)| waiting.to.is_sent());
        let at = sent().find(|(_, waiting)| waiting.text == text).or_else(|| sent().next()).map(|(at, _)| at);
        if let Some(at) = at {
            self.waiting.remove(at);
        }
    }

    /// Saves the waiting messages with their thread, so that they survive if the program is killed.
    pub(super) fn keep_waiting(&mut self) {
        let thread = &self.session.thread;
        let is_moved = !self.kept.1.is_empty() && self.kept.0 != *thread;
        // What is stored with the thread needs no second copy.
        let own = self.waiting.iter().filter(|waiting| waiting.to != Recipient::Thread).map(|waiting| &waiting.text);
        if own.clone().eq(&self.kept.1) && !is_moved {
            return;
        }
        let texts: Vec<String> = own.cloned().collect();
        let thread = thread.clone();
        if let (Some(before), true) = (self.kept.0.take(), is_moved) {
            self.request(Effect::KeepWaiting { thread: before, texts: Vec::new() });
        }
        self.kept = (None, Vec::new());
        // A new thread gets its id soon.
        if let Some(thread) = thread {
            self.kept = (Some(thread.clone()), texts.clone());
            self.request(Effect::KeepWaiting { thread, texts });
        }
    }

    /// Returns messages that were not received to the input.
    pub(super) fn give_back(&mut self) {
        let back: Vec<_> = self.waiting.extract_if(.., |waiting| waiting.to != Recipient::Thread).collect();
        self.unsent(back);
    }

    /// Returns messages to the input that were not sent. The user may have to enter a command before they can be.
    pub(super) fn unsent(&mut self, messages: Vec<QueuedMessage>) {
        if !messages.is_empty() && (self.editor.is_blank() || self.came_back == CameBack::FromRewind) {
            self.came_back = CameBack::Unsent;
        }
        self.edit_again(messages);
    }

    /// Returns the messages retracted from the run to the input, with those not sent to it yet.
    pub(super) fn take_back(&mut self, retracted: &[String]) {
        let of_run = |waiting: &QueuedMessage| waiting.to.is_sent() && !retracted.contains(&waiting.text);
        let (taken, back) = std::mem::take(&mut self.waiting).into_iter().partition(of_run);
        self.waiting = taken;
        self.edit_again(back);
    }

    /// Puts messages before the text in the input.
    pub(super) fn edit_again(&mut self, messages: Vec<QueuedMessage>) {
        if !messages.is_empty() {
            self.editor.put_before(&joined(messages, "\n"));
        }
    }
}

/// Joins messages into one.
fn joined(waiting: Vec<QueuedMessage>, between: &str) -> String {
    waiting.into_iter().map(|waiting| waiting.text).collect::<Vec<_>>().join(between)
}
