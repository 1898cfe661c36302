//! The todo list.

use deepagents_core::state::{Channel, ChannelError, Concurrent, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The todo list. A sub-agent starts with an empty one and keeps its own.
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
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::separate();
    // Ids and times are the harness's; code that plans is a planner.
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

/// A change to the todo list. As JSON a list, which takes the place of the one there is, or a [`TodoChange`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TodoUpdate {
    /// Another list. Logs of version 1 hold this form only.
    Whole(Vec<Todo>),
    /// Some items.
    Items(TodoChange),
}

impl TodoUpdate {
    /// What makes one list of another: item by item, unless ids are there twice.
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
        let at = |list: &[Todo], id: &str| list.iter().position(|item| item.id == id);
        let same = |item: &&Todo| at(before, &item.id).and_then(|at| before.get(at)) == Some(*item);
        let gone = before.iter().filter(|item| at(after, &item.id).is_none());
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

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Items(change) if *change == TodoChange::default())
    }
}

/// What changes in a todo list, item by item, so that a long list costs no more than what is done to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TodoChange {
    /// Items that are new, or take the place of the ones with their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub put: Vec<Todo>,
    /// Ids of items that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete: Vec<String>,
    /// The ids in their order. Nothing where items stay in their places and new ones follow at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
}

impl TodoChange {
    fn apply(self, list: &mut Vec<Todo>) {
        list.retain(|item| !self.delete.contains(&item.id));
        for item in self.put {
            match list.iter_mut().find(|known| known.id == item.id) {
                Some(known) => *known = item,
                None => list.push(item),
            }
        }
        if !self.order.is_empty() {
            // Items that the order does not name follow those that it names.
            list.sort_by_key(|item| self.order.iter().position(|id| *id == item.id).unwrap_or(usize::MAX));
        }
    }
}

/// An item of the todo list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// Given by the harness and kept while the item lives.
    pub id: String,
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// When the item appeared, RFC 3339.
    pub created_at: String,
}

/// How far an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Finished.
    Completed,
}

impl TodoStatus {
    /// The word in JSON and for the model.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}
