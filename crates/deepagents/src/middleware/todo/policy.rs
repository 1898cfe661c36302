//! Optional rules of the todo list.

use deepagents_core::run::Context;
use serde::{Deserialize, Serialize};

use super::WRITE;
use crate::channels::{TodoStatus, Todos};

/// The optional rules of the todo list.
///
/// ```
/// use deepagents::middleware::todo::TodoPolicy;
/// let quiet = TodoPolicy { remind_after: None, ..TodoPolicy::default() };
/// assert!(quiet.keep_finished);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TodoPolicy {
    /// Whether to keep finished items that a write leaves out, and tell the model. An empty list still clears
    /// everything.
    pub keep_finished: bool,
    /// Number of tool calls without a write after which the model is reminded of a list with open items, at the end of
    /// the conversation.
    pub remind_after: Option<usize>,
    /// Whether to ask once, before a run ends with open items, if the work is done.
    pub ask_before_end: bool,
}

impl Default for TodoPolicy {
    fn default() -> Self {
        Self { keep_finished: true, remind_after: Some(10), ask_before_end: true }
    }
}

impl TodoPolicy {
    /// Returns a policy with all optional rules off.
    pub fn off() -> Self {
        Self { keep_finished: false, remind_after: None, ask_before_end: false }
    }
}

/// The state of the policy for a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Memo {
    /// The length of the conversation after the last reminder.
    pub(super) reminded_at: usize,
    /// The run that was asked before its end.
    pub(super) asked_in: String,
}

deepagents_core::last_value!(
    pub(super) TodoMemo("todo_memo"): Memo => private, not_projected
);

pub(super) fn has_open(cx: &Context) -> bool {
    cx.state().get::<Todos>().is_some_and(|todos| todos.iter().any(|t| t.status != TodoStatus::Completed))
}

pub(super) fn open_items(cx: &Context) -> String {
    let todos = cx.get::<Todos>();
    let open = todos.iter().filter(|t| t.status != TodoStatus::Completed);
    open.map(|t| format!("- [{}] {}", t.status.as_str(), t.content)).collect::<Vec<_>>().join("\n")
}

/// Counts the tool results since the last write of the list, the last reminder or the last message of a person, up to
/// `enough`.
pub(super) fn calls_since_write(cx: &Context, reminded_at: usize, enough: usize) -> usize {
    let messages = cx.messages();
    let latest = (reminded_at..messages.len()).rev().filter_map(|at| messages.get(at));
    let since = latest.take_while(|m| m.as_user().is_none() && m.as_tool().is_none_or(|result| result.name != WRITE));
    since.filter(|m| m.as_tool().is_some()).take(enough).count()
}
