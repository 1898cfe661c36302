//! The displayed thread: replaced by another one, or changed by other programs.

use std::sync::Arc;

use deepagents::Usage;
use deepagents::channels::Todo;

use super::effect::Effect;
use super::event::Opened;
use super::live::Live;
use super::messages::{Plan, QueuedMessage, Recipient};
use super::pending::Questions;
use super::state::{App, CameBack, Work};
use super::transcript::Item;

impl App {
    /// Handles the move of the run to the background, so that a new conversation can begin.
    pub(super) fn moved_to_background(&mut self, thread: String) {
        let short: String = thread.chars().take(8).collect();
        self.background.push(thread);
        // The run gets what was sent to it.
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|waiting| !waiting.to.is_sent());
        self.opened(Opened::default());
        self.note(
            format!("it continues in the background: /resume {short} shows it, as does `deepagents attach {short}`"),
            false,
        );
        self.edit_again(waiting);
    }

    /// Handles the end of a run in the background, or its question.
    pub(super) fn background_ended(&mut self, thread: &str, what: String, waits: bool) {
        self.background.retain(|known| known != thread);
        self.note(format!("in the background: {what}; /threads opens it"), waits);
        self.request(Effect::Notify(what));
    }

    /// Leaves the thread for another one, or for a new one if there is no id. Work in progress is stopped first.
    pub(super) fn leave_thread(&mut self, id: Option<String>) {
        self.next_thread = Some(id);
        if self.is_busy() {
            self.waiting.clear();
            self.stop();
        }
    }

    /// Changes the thread if that was asked for and nothing is in progress any more.
    pub(super) fn change_thread_when_idle(&mut self) {
        let Some(next) = self.next_thread.take_if(|_| self.work == Work::Nothing) else { return };
        match next {
            Some(id) => self.begin_if_idle("opening", Effect::Open(id)),
            None => {
                self.request(Effect::NewThread);
                self.context.clear();
                self.opened(Opened::default());
                if self.has_status_command {
                    self.request(Effect::Count);
                }
            }
        }
    }

    /// Displays another thread.
    pub(super) fn opened(&mut self, opened: Opened) {
        let is_stopped = self.stopping;
        self.idle();
        self.live = Live::with_earlier_work(opened.agents);
        // Notices shown before the first thread remain, as they are no reason to clear the screen.
        if self.items.iter().skip(1).any(|item| !matches!(item, Item::Note { .. })) {
            self.repaint = true;
            self.items.truncate(1);
        }
        self.reopened = true;
        self.items.extend(opened.items);
        self.take_facts(opened.todos, opened.usage, opened.context);
        // What the user's commands said belongs to the conversation in which they were run.
        if self.session.thread != opened.thread {
            self.context.clear();
            self.background_shell.iter_mut().for_each(|run| run.shared = false);
        }
        self.session.thread = opened.thread;
        self.session.dollars = None;
        self.questions = Questions::default();
        self.left.clear();
        // Going back to before a message also takes back what was stored after it.
        let is_undone = |waiting: &mut QueuedMessage| opened.input.is_some() && waiting.to == Recipient::Thread;
        let undone: Vec<_> = self.waiting.extract_if(.., is_undone).collect();
        // Messages typed meanwhile are for the thread that is now open.
        self.waiting.retain(|waiting| waiting.to == Recipient::NextRun);
        // A plan that was not carried out is offered again, unless the user is about to send something.
        let is_open = opened.planned && opened.waiting.is_empty() && opened.input.is_none() && self.waiting.is_empty();
        self.revises_plan = false;
        self.plan = (is_open && self.lays_out_plan()).then(Plan::default);
        // The reason why nothing can run still applies.
        if let Some(problem) = self.session.problem.clone() {
            self.note(problem, true);
        }
        if let Some(note) = opened.note {
            self.note(note, false);
        }
        if let Some(input) = opened.input {
            let texts: Vec<String> = std::iter::once(input).chain(undone.into_iter().map(|one| one.text)).collect();
            self.editor.set(texts.join("\n"));
            self.came_back = CameBack::FromRewind;
        }
        if !opened.waiting.is_empty() {
            self.note("messages that were not sent before the program ended are back in the input", false);
            self.unsent(opened.waiting.into_iter().map(QueuedMessage::after_current_work).collect());
        }
        self.questions_wait(opened.questions, &opened.decided);
        // They are sent, unless there is something to see first.
        if is_stopped || self.is_busy() { self.give_back() } else { self.next_waiting() }
    }

    /// Displays what another program has added to the thread.
    pub(super) fn watched(&mut self, opened: Opened, items: Arc<Vec<Item>>) {
        if self.session.thread != opened.thread {
            return;
        }
        // What is stored with the thread is delivered by the other program.
        self.waiting.retain(|waiting| waiting.to != Recipient::Thread);
        // The other program has made the decision that is pending here.
        if self.waits {
            let is_open = |id: &str| opened.questions.iter().any(|question| question.request.id == id);
            if self.questions.current().is_some_and(|question| !is_open(&question.request.id)) {
                let mine = match self.questions.decided() {
                    [] => "",
                    _ => "; its answers count, not what you decided here",
                };
                self.note(format!("the question was answered in the other window{mine}"), false);
            }
            self.questions = Questions::default();
            self.idle();
            self.give_back();
        }
        if self.is_busy() {
            // A message was sent before this event arrived.
            if self.work == Work::Run && !self.is_resumed && matches!(self.items.last(), Some(Item::User(_))) {
                self.thread_changed_elsewhere(Some(Opened { items: Arc::unwrap_or_clone(items), ..opened }));
            }
            return;
        }
        if is_rewound(&self.items, &items) {
            (self.repaint, self.reopened) = (true, true);
            self.items.truncate(1);
            self.items.extend(Arc::unwrap_or_clone(items));
            self.note("another program rewound this thread; this is what is left", false);
        } else {
            let added = beyond(&self.items, &items);
            if added.is_empty() && opened.note.is_none() && opened.questions.is_empty() {
                return;
            }
            self.items.extend(added);
        }
        self.take_facts(opened.todos, opened.usage, opened.context);
        if let Some(note) = opened.note {
            self.note(note, false);
        }
        self.questions_wait(opened.questions, &[]);
    }

    /// Handles changes by others, or a deletion of the thread, before a message that is being sent: the message comes
    /// after them.
    pub(super) fn thread_changed_elsewhere(&mut self, opened: Option<Opened>) {
        let sent = self.items.iter().rposition(|item| matches!(item, Item::User(_))).unwrap_or(self.items.len());
        let before = self.items.get(..sent).unwrap_or_default();
        let is_deleted = opened.is_none();
        let opened = opened.unwrap_or_default();
        let (from, mut items, note) = if is_deleted {
            self.session.thread = None;
            (1, Vec::new(), Some("another program has deleted this thread; your message starts a new one"))
        } else if is_rewound(before, &opened.items) {
            (1, opened.items, Some("another program rewound this thread; this is what is left"))
        } else {
            (sent, beyond(before, &opened.items), None)
        };
        items.extend(note.map(|text| Item::Note { text: text.to_owned(), bad: is_deleted }));
        if items.is_empty() {
            return;
        }
        // The printed items change their order.
        (self.repaint, self.reopened) = (true, note.is_some());
        self.items.splice(from.min(sent)..sent, items);
        self.take_facts(opened.todos, opened.usage, opened.context);
        self.spent_before.0 = opened.usage;
    }

    fn take_facts(&mut self, todos: Vec<Todo>, usage: Usage, context: u64) {
        (self.todos, self.session.usage, self.session.context) = (todos, usage, context);
    }
}

/// Returns the items of a thread after those that are displayed. Notices of the program do not count.
fn beyond(shown: &[Item], thread: &[Item]) -> Vec<Item> {
    let mut known = shown.iter().filter(|item| item.is_of_thread()).count();
    let mut is_known = |item: &Item| match (item.is_of_thread(), known.checked_sub(1)) {
        (true, Some(left)) => {
            known = left;
            true
        }
        (is_of_thread, _) => !is_of_thread,
    };
    thread.iter().skip_while(|item| is_known(item)).cloned().collect()
}

/// Returns whether the displayed messages are no longer part of the thread. A thread whose beginning was summarised has
/// not been rewound.
fn is_rewound(shown: &[Item], thread: &[Item]) -> bool {
    fn said(item: &Item) -> Option<&str> {
        match item {
            Item::User(text) => Some(text.trim()),
            _ => None,
        }
    }
    let [shown, thread] = [shown, thread].map(|items| items.iter().filter_map(said).collect::<Vec<_>>());
    !thread.starts_with(&shown) && (shown.starts_with(&thread) || !shown.ends_with(&thread))
}
