//! Rules that can be switched.

use deepagents_core::run::Context;
use deepagents_core::state::{Channel, ChannelError, Sharing};
use serde::{Deserialize, Serialize};

use super::WRITE;
use crate::channels::{TodoStatus, Todos};

/// Rules of the todo list that can be switched.
///
/// ```
/// use deepagents::middleware::todo::TodoPolicy;
/// let quiet = TodoPolicy { remind_after: None, ..TodoPolicy::default() };
/// assert!(quiet.keep_finished);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
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
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
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
    open.map(|t| format!("- [{}] {}", t.status.as_str(), t.content)).collect::<Vec<_>>().join("\n")
}

/// Tool results since the last write of the list, the last reminder or the last word of a person; counts to `enough`.
pub(super) fn calls_since_write(cx: &Context, reminded_at: usize, enough: usize) -> usize {
    let messages = cx.messages();
    let latest = (reminded_at..messages.len()).rev().filter_map(|at| messages.get(at));
    let since = latest.take_while(|m| m.as_user().is_none() && m.as_tool().is_none_or(|result| result.name != WRITE));
    since.filter(|m| m.as_tool().is_some()).take(enough).count()
}
