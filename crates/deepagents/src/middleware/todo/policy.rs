//! Rules that can be switched.

use deepagents_core::message::Message;
use deepagents_core::run::Context;
use deepagents_core::state::{Channel, ChannelError};
use serde::{Deserialize, Serialize};

use super::WRITE;
use crate::channels::{TodoStatus, Todos};

/// Rules of the todo list that can be switched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TodoPolicy {
    /// Finished items that a write leaves out are kept, and the model is told. An empty list clears all the same.
    pub keep_finished: bool,
    /// After so many tool calls without a write, a list with open items is recalled at the end of the conversation.
    pub remind_after: Option<usize>,
    /// A run that is about to end with open items is asked once whether it is done.
    pub ask_before_end: bool,
}

impl Default for TodoPolicy {
    fn default() -> Self {
        Self { keep_finished: true, remind_after: Some(10), ask_before_end: true }
    }
}

impl TodoPolicy {
    /// None of the rules that can be switched.
    pub fn off() -> Self {
        Self { keep_finished: false, remind_after: None, ask_before_end: false }
    }

    /// Switches [`keep_finished`](Self::keep_finished).
    #[must_use]
    pub fn keep_finished(mut self, on: bool) -> Self {
        self.keep_finished = on;
        self
    }

    /// Sets [`remind_after`](Self::remind_after).
    #[must_use]
    pub fn remind_after(mut self, calls: Option<usize>) -> Self {
        self.remind_after = calls;
        self
    }

    /// Switches [`ask_before_end`](Self::ask_before_end).
    #[must_use]
    pub fn ask_before_end(mut self, on: bool) -> Self {
        self.ask_before_end = on;
        self
    }
}

/// What the policy remembers of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Memo {
    /// Length of the conversation after the last reminder.
    pub(super) reminded_at: usize,
    /// The run that was asked before its end.
    pub(super) asked_in: String,
}

#[derive(Debug)]
pub(super) struct TodoMemo;

impl Channel for TodoMemo {
    const NAME: &'static str = "todo_memo";
    const PRIVATE: bool = true;
    type Value = Memo;
    type Update = Memo;

    fn reduce(value: &mut Memo, update: Memo) -> Result<(), ChannelError> {
        *value = update;
        Ok(())
    }
}

pub(super) fn has_open(cx: &Context) -> bool {
    cx.state().get::<Todos>().is_some_and(|todos| todos.iter().any(|t| t.status != TodoStatus::Completed))
}

pub(super) fn open_items(cx: &Context) -> String {
    let todos = cx.get::<Todos>();
    let open = todos.iter().filter(|t| t.status != TodoStatus::Completed);
    open.map(|t| format!("- [{}] {}", t.status.word(), t.content)).collect::<Vec<_>>().join("\n")
}

/// Tool results since the last write of the list, the last reminder or the last word of a person; counts to `enough`.
pub(super) fn calls_since_write(cx: &Context, reminded_at: usize, enough: usize) -> usize {
    let messages = cx.messages();
    let mut calls = 0;
    for at in (reminded_at.min(messages.len())..messages.len()).rev() {
        match messages.get(at).map(|m| &**m) {
            Some(Message::Tool(result)) if result.name == WRITE => break,
            Some(Message::Tool(_)) => calls += 1,
            Some(Message::User(_)) => break,
            _ => {}
        }
        if calls >= enough {
            break;
        }
    }
    calls
}
