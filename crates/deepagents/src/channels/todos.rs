//! The channel of the todo list.

use std::collections::{HashMap, HashSet};

use deepagents_core::state::{Channel, ChannelError, Concurrent, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The todo list. A sub-agent starts with an empty list and keeps its own, even if it sees the conversation.
///
/// ```
/// use deepagents::Outcome;
/// use deepagents::channels::Todos;
/// fn remaining(outcome: &Outcome) -> usize {
///     let todos = outcome.state.get::<Todos>().map(Vec::as_slice).unwrap_or_default();
///     todos.iter().filter(|todo| todo.status.as_str() != "completed").count()
/// }
/// ```
#[derive(Debug)]
pub struct Todos;

impl Channel for Todos {
    const NAME: &'static str = "todos";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::separate().not_projected();
    // Ids and times are set by the harness; code that fills the list is a planner.
    const FROM_INPUT: bool = false;
    const CONCURRENT: Concurrent = Concurrent::Refuse;
    type Value = Vec<Todo>;
    type Update = TodoUpdate;

    fn reduce(value: &mut Vec<Todo>, update: TodoUpdate) -> Result<(), ChannelError> {
        match update {
            TodoUpdate::Whole(list) => *value = list,
            TodoUpdate::Items(change) => change.apply(value),
        }
        Ok(())
    }
}

/// A change to the todo list. As JSON, a list, which replaces the current one, or a [`TodoChange`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TodoUpdate {
    /// Replaces the whole list. The only form in logs of version 1.
    Whole(Vec<Todo>),
    /// Changes individual items.
    Items(TodoChange),
}

impl TodoUpdate {
    /// Returns the update that turns one list into another: item by item, unless ids are duplicated.
    ///
    /// ```
    /// use deepagents::channels::{Todo, TodoStatus, TodoUpdate};
    /// use serde_json::json;
    /// let todo = |id: &str, content: &str| Todo {
    ///     id: id.into(),
    ///     content: content.into(),
    ///     status: TodoStatus::Pending,
    ///     created_at: "2026-01-01T00:00:00Z".into(),
    /// };
    /// let update = TodoUpdate::between(&[todo("1", "Look"), todo("2", "Rest")], &[todo("1", "Look")]);
    /// assert_eq!(json!(update), json!({"delete": ["2"]}));
    /// ```
    pub fn between(before: &[Todo], after: &[Todo]) -> Self {
        let (old, new) = (positions(before), positions(after));
        let same = |item: &&Todo| old.get(item.id.as_str()).and_then(|at| before.get(*at)) == Some(*item);
        let gone = before.iter().filter(|item| !new.contains_key(item.id.as_str()));
        let mut change = TodoChange {
            put: after.iter().filter(|item| !same(item)).cloned().collect(),
            delete: gone.map(|item| item.id.clone()).collect(),
            order: Vec::new(),
        };
        let comes_to = |change: &TodoChange| {
            let mut list = before.to_vec();
            change.clone().apply(&mut list);
            list
        };
        if comes_to(&change) != after {
            change.order = after.iter().map(|item| item.id.clone()).collect();
        }
        if comes_to(&change) == after { Self::Items(change) } else { Self::Whole(after.to_vec()) }
    }

    /// Returns `true` if the update changes nothing.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Items(change) if *change == TodoChange::default())
    }
}

/// Changes to individual items, so that an update of a long list is no larger than the change itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TodoChange {
    /// Items that are new or replace those with the same ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub put: Vec<Todo>,
    /// Ids of removed items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete: Vec<String>,
    /// The ids in their new order. Empty if items keep their positions and new ones are appended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
}

impl TodoChange {
    fn apply(self, list: &mut Vec<Todo>) {
        let deleted: HashSet<&str> = self.delete.iter().map(String::as_str).collect();
        list.retain(|item| !deleted.contains(item.id.as_str()));
        let mut known: HashMap<String, usize> =
            positions(list).into_iter().map(|(id, at)| (id.to_owned(), at)).collect();
        for item in self.put {
            match known.get(&item.id).and_then(|at| list.get_mut(*at)) {
                Some(replaced) => *replaced = item,
                None => {
                    known.insert(item.id.clone(), list.len());
                    list.push(item);
                }
            }
        }
        if !self.order.is_empty() {
            let order = first_positions(self.order.iter().map(String::as_str));
            // Items that the order does not name come after those that it does.
            list.sort_by_key(|item| order.get(item.id.as_str()).copied().unwrap_or(usize::MAX));
        }
    }
}

/// Returns the position of each item by its id.
fn positions(list: &[Todo]) -> HashMap<&str, usize> {
    first_positions(list.iter().map(|item| item.id.as_str()))
}

/// Returns the position of the first occurrence of each id.
fn first_positions<'a>(ids: impl DoubleEndedIterator<Item = &'a str> + ExactSizeIterator) -> HashMap<&'a str, usize> {
    ids.enumerate().map(|(at, id)| (id, at)).rev().collect()
}

/// An item of the todo list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// Its id, assigned by the harness and stable for the lifetime of the item.
    pub id: String,
    /// The work to be done.
    pub content: String,
    /// Its progress.
    pub status: TodoStatus,
    /// When the item was created, in RFC 3339 format.
    pub created_at: String,
}

/// The progress of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not started.
    Pending,
    /// Started.
    InProgress,
    /// Finished.
    Completed,
}

impl TodoStatus {
    /// Returns the name used in JSON and for the model.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}
