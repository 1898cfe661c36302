//! `write_todos` and `read_todos`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use deepagents_core::state::Update;
use deepagents_core::tool::{DynTool, Effect, ToolContext, ToolError, ToolOutput, tool_fn};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::WRITE;
use crate::channels::{Todo, TodoStatus, TodoUpdate, Todos};

/// Returns `write_todos` and `read_todos`.
pub(super) fn all(keep_finished: bool) -> Vec<Arc<dyn DynTool>> {
    let description = include_str!("../../prompts/write_todos.md").trim_end();
    let write = tool_fn(WRITE, description, move |args: WriteArgs, cx| async move { write(args, keep_finished, &cx) });
    let description = "Shows the todo list with the ids of its items.";
    let read = tool_fn("read_todos", description, |_: ReadArgs, cx: ToolContext| async move { Ok(read(&cx)) });
    vec![Arc::new(write), Arc::new(read.effect(Effect::Read))]
}

#[derive(Deserialize, JsonSchema)]
struct WriteArgs {
    /// The whole list, in order.
    todos: Vec<Item>,
}

#[derive(Deserialize, JsonSchema)]
struct Item {
    content: String,
    status: TodoStatus,
    /// Id of an item whose wording changes.
    #[serde(default, deserialize_with = "loose_id")]
    id: Option<String>,
}

/// Ids look like numbers, and some models write them as such. Anything else cannot be an id in the list.
fn loose_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(id) => Some(id),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    })
}

fn write(args: WriteArgs, keep_finished: bool, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let before = cx.get::<Todos>();
    let now = cx.clock().now().to_string();
    let taken: HashSet<&str> = before.iter().map(|todo| todo.id.as_str()).collect();
    let mut fresh_ids = (1u64..).map(|n| n.to_string()).filter(|id| !taken.contains(id.as_str()));
    let mut unused = Unused::new(&before);
    let mut list: Vec<Todo> = Vec::new();
    for item in args.todos {
        if item.content.trim().is_empty() {
            return Err(ToolError::model(
                "Error: an item has no content; say what is to be done. The list is unchanged.",
            ));
        }
        let (id, created_at) = match unused.take(&item) {
            Some(known) => (known.id.clone(), known.created_at.clone()),
            None => (fresh_ids.next().unwrap_or_default(), now.clone()),
        };
        list.push(Todo { id, content: item.content, status: item.status, created_at });
    }
    let mut notes = String::new();
    let unused = unused.items.into_iter().flatten().cloned();
    let (finished, open): (Vec<Todo>, Vec<Todo>) = unused.partition(|t| t.status == TodoStatus::Completed);
    if !list.is_empty() {
        notes += &left_out("These open items are no longer on the list", &open);
        if keep_finished && !finished.is_empty() {
            notes += &left_out("These finished items were left out and have been kept", &finished);
            list = finished.into_iter().chain(list).collect();
        }
    }
    let text = format!("{}{notes}", summary(&list));
    let (output, update) = (ToolOutput::text(text), TodoUpdate::between(&before, &list));
    Ok(if update.is_empty() { output } else { output.with_update(Update::new::<Todos>(update)) })
}

/// The items of the current list that no item of the new one continues.
struct Unused<'a> {
    items: Vec<Option<&'a Todo>>,
    by_id: HashMap<&'a str, usize>,
    by_content: HashMap<&'a str, VecDeque<usize>>,
}

impl<'a> Unused<'a> {
    fn new(list: &'a [Todo]) -> Self {
        let mut by_content: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (at, todo) in list.iter().enumerate() {
            by_content.entry(&todo.content).or_default().push_back(at);
        }
        // Of several with one id, the first.
        let by_id = list.iter().enumerate().rev().map(|(at, todo)| (todo.id.as_str(), at)).collect();
        Self { items: list.iter().map(Some).collect(), by_id, by_content }
    }

    /// Takes the item with the same id, or else the first remaining one with the same text.
    fn take(&mut self, item: &Item) -> Option<&'a Todo> {
        let same_id = item.id.as_deref().and_then(|id| self.by_id.get(id)).copied();
        if let Some(todo) = same_id.and_then(|at| self.items.get_mut(at)?.take()) {
            return Some(todo);
        }
        let same_content = self.by_content.get_mut(item.content.as_str())?;
        while let Some(at) = same_content.pop_front() {
            if let Some(todo) = self.items.get_mut(at).and_then(Option::take) {
                return Some(todo);
            }
        }
        None
    }
}

fn left_out(what: &str, items: &[Todo]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: Vec<&str> = items.iter().map(|t| t.content.as_str()).collect();
    format!("\n{what}: {}.", items.join("; "))
}

fn summary(list: &[Todo]) -> String {
    if list.is_empty() {
        return "The todo list is empty now.".to_owned();
    }
    let count = |status| list.iter().filter(|t| t.status == status).count();
    format!(
        "Todo list updated: {} completed, {} in progress, {} pending.",
        count(TodoStatus::Completed),
        count(TodoStatus::InProgress),
        count(TodoStatus::Pending)
    )
}

#[derive(Deserialize, JsonSchema)]
struct ReadArgs {}

fn read(cx: &ToolContext) -> String {
    let todos = cx.get::<Todos>();
    if todos.is_empty() {
        return "The todo list is empty.".to_owned();
    }
    let lines = todos.iter().map(|t| format!("{}. [{}] {}", t.id, t.status.as_str(), t.content));
    lines.collect::<Vec<_>>().join("\n")
}
