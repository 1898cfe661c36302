//! Changes of the todo list.

use deepagents::channels::{Todo, TodoStatus, Todos};
use deepagents::core::state::Channel;
use serde::Deserialize;
use serde_json::Value;

use super::style::{Style, first_line};

/// Maximum number of characters shown of an item.
const MAX_ITEM_CHARS: usize = 100;

/// The todo list as last shown.
#[derive(Debug, Default)]
pub(super) struct TodoView {
    shown: Vec<Todo>,
}

impl TodoView {
    /// Returns a view of a list that is not shown until it changes.
    pub(super) fn new(shown: Vec<Todo>) -> Self {
        Self { shown }
    }

    /// Returns the lines that show a change: a heading, and the items that are new or changed. Empty if nothing
    /// changed.
    pub(super) fn update(&mut self, change: &Value, style: Style) -> Vec<String> {
        let mut now = self.shown.clone();
        let update = <Todos as Channel>::Update::deserialize(change);
        if update.is_err() || update.is_ok_and(|update| Todos::reduce(&mut now, update).is_err()) {
            return Vec::new();
        }
        let known = |item: &&Todo| self.shown.iter().any(|t| (&t.content, t.status) == (&item.content, item.status));
        let changed: Vec<&Todo> = now.iter().filter(|item| !known(item)).collect();
        if changed.is_empty() && now.len() == self.shown.len() {
            return Vec::new();
        }
        let done = now.iter().filter(|item| item.status == TodoStatus::Completed).count();
        let head = if now.is_empty() { "Todos: none".to_owned() } else { format!("Todos {done}/{}", now.len()) };
        let mut lines = vec![style.bold(&head)];
        lines.extend(changed.into_iter().map(|item| {
            let content = first_line(&item.content, MAX_ITEM_CHARS);
            match item.status {
                TodoStatus::Completed => format!("  {} {}", style.green("☑"), style.dim(&content)),
                TodoStatus::InProgress => format!("  {} {content}", style.yellow("◐")),
                TodoStatus::Pending => format!("  ☐ {content}"),
            }
        }));
        self.shown = now;
        lines
    }
}
