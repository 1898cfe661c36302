//! `write_todos` and `read_todos`.

use deepagents_core::state::Update;
use deepagents_core::tool::{Effect, Tool, ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::WRITE;
use crate::channels::{Todo, TodoStatus, TodoUpdate, Todos};

pub(super) struct WriteTodos {
    pub(super) keep_finished: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct WriteArgs {
    /// The whole list, in order.
    todos: Vec<Item>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Item {
    content: String,
    status: TodoStatus,
    /// Id of an item whose wording changes.
    #[serde(default, deserialize_with = "loose_id")]
    id: Option<String>,
}

/// Ids look like numbers, and some models write them as such. Anything else cannot be an id of the list.
fn loose_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(id) => Some(id),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    })
}

impl Tool for WriteTodos {
    type Args = WriteArgs;

    fn name(&self) -> &str {
        WRITE
    }

    fn description(&self) -> &str {
        include_str!("../../prompts/write_todos.md").trim_end()
    }

    async fn call(&self, args: WriteArgs, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let before = cx.get::<Todos>();
        let now = cx.clock().now().to_string();
        let mut unused = before.clone();
        let mut list: Vec<Todo> = Vec::new();
        for item in args.todos {
            if item.content.trim().is_empty() {
                return Err(ToolError::model(
                    "Error: an item has no content; say what is to be done. The list is unchanged.",
                ));
            }
            // The same item is the one with the id, or else the first left over with the same words.
            let same = unused
                .iter()
                .position(|t| item.id.as_ref() == Some(&t.id))
                .or_else(|| unused.iter().position(|t| t.content == item.content));
            let (id, created_at) = match same {
                Some(at) => {
                    let known = unused.remove(at);
                    (known.id, known.created_at)
                }
                None => (fresh_id(&before, &list), now.clone()),
            };
            list.push(Todo { id, content: item.content, status: item.status, created_at });
        }
        let mut notes = String::new();
        let (finished, open): (Vec<Todo>, Vec<Todo>) =
            unused.into_iter().partition(|t| t.status == TodoStatus::Completed);
        if !list.is_empty() {
            notes += &left_out("These open items are no longer on the list", &open);
            if self.keep_finished && !finished.is_empty() {
                notes += &left_out("These finished items were left out and have been kept", &finished);
                list = finished.into_iter().chain(list).collect();
            }
        }
        let text = format!("{}{notes}", summary(&list));
        let (output, update) = (ToolOutput::text(text), TodoUpdate::between(&before, &list));
        Ok(if update.is_empty() { output } else { output.with_update(Update::of::<Todos>(update)) })
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

/// The smallest number that no item has.
fn fresh_id(before: &[Todo], list: &[Todo]) -> String {
    let taken = |id: &str| before.iter().chain(list).any(|t| t.id == id);
    (1u64..).map(|n| n.to_string()).find(|id| !taken(id)).unwrap_or_default()
}

pub(super) struct ReadTodos;

#[derive(Deserialize, JsonSchema)]
pub(super) struct ReadArgs {}

impl Tool for ReadTodos {
    type Args = ReadArgs;

    fn name(&self) -> &str {
        "read_todos"
    }

    fn description(&self) -> &str {
        "Shows the todo list with the ids of its items."
    }

    fn effect(&self, _args: &ReadArgs) -> Effect {
        Effect::Read
    }

    async fn call(&self, _args: ReadArgs, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let todos = cx.get::<Todos>();
        if todos.is_empty() {
            return Ok("The todo list is empty.".into());
        }
        let lines = todos.iter().map(|t| format!("{}. [{}] {}", t.id, t.status.word(), t.content));
        Ok(lines.collect::<Vec<_>>().join("\n").into())
    }
}
