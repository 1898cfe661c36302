//! The thread that is shown: another one takes its place, and other programs go on with it.

use super::event::{Effect, Opened, PendingApproval};
use super::live::Live;
use super::messages::joined;
use super::state::{App, Work};
use super::transcript::Item;

impl App {
    /// The run goes on in the background, and a new conversation can begin.
    pub(super) fn sent_back(&mut self, thread: String) -> Vec<Effect> {
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
    pub(super) fn opened(&mut self, opened: Opened) -> Vec<Effect> {
        self.idle();
        self.live = Live::default();
        // What was said by the program itself before the first thread is no reason to clear the screen, and stays: it is printed.
        if self.items.iter().skip(1).any(|item| !matches!(item, Item::Note { .. })) {
            self.repaint = true;
            self.items.truncate(1);
        }
        self.reopened = true;
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
    pub(super) fn watched(&mut self, opened: Opened) {
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
