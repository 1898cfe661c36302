//! The recorded trace of a step.

use std::path::Path;

use anyhow::Result;
use deepagents::channels::{Files, StructuredResponse, Todos};
use deepagents::core::store::{Item, Query, Store};
use deepagents::fs::FileData;
use deepagents::{ActionRequest, Interrupt, Message, State};
use serde_json::{Map, Value, json};

use crate::build::Built;

/// Serialises an interrupt without the descriptions of its requests.
fn bare(interrupt: &Interrupt) -> Value {
    let mut json = interrupt.to_json();
    for request in json["action_requests"].as_array_mut().into_iter().flatten() {
        request.as_object_mut().map(|request| request.shift_remove("description"));
    }
    json
}

pub(crate) async fn step(
    state: &State,
    built: &Built,
    questions: Vec<ActionRequest>,
    error: Option<String>,
) -> Result<Value> {
    let messages: Vec<Value> = state.messages().iter().map(|m| message(m)).collect();
    let todos: Vec<Value> = state
        .get::<Todos>()
        .into_iter()
        .flatten()
        .map(|todo| json!({"content": todo.content, "status": todo.status}))
        .collect();
    let mut files = Map::new();
    for (path, file) in state.get::<Files>().into_iter().flat_map(|files| files.iter()) {
        let text = String::from_utf8_lossy(file.content().bytes()).into_owned();
        files.insert(path.to_string(), Value::String(text));
    }
    if built.on_disk {
        on_disk(built.root.path(), built.root.path(), &mut files)?;
    }
    let mut out = json!({"messages": messages, "todos": todos, "files": files});
    let items = built.store.search(&[], &Query::default()).await?;
    if !items.is_empty() {
        let file = |item: &Item| {
            let file: FileData = serde_json::from_value(item.value.clone())?;
            let text = String::from_utf8_lossy(file.content().bytes()).into_owned();
            Ok((format!("{}:{}", item.namespace.join("/"), item.key), Value::String(text)))
        };
        out["store"] = Value::Object(items.iter().map(file).collect::<Result<_>>()?);
    }
    if let Some(value) = state.get::<StructuredResponse>().and_then(Option::as_ref) {
        out["structured_response"] = value.clone();
    }
    let interrupts = Interrupt::group(questions);
    if !interrupts.is_empty() {
        out["interrupts"] = interrupts.iter().map(bare).collect();
    }
    if let Some(error) = error {
        out["error"] = Value::String(error);
    }
    Ok(out)
}

fn message(message: &Message) -> Value {
    let text = message.text();
    match message {
        Message::Assistant(answer) => {
            let calls: Vec<Value> =
                answer.tool_calls().map(|c| json!({"id": c.id, "name": c.name, "args": c.args})).collect();
            json!({"role": "assistant", "text": text, "tool_calls": calls})
        }
        Message::Tool(result) => json!({
            "role": "tool", "text": text, "id": result.call_id, "name": result.name, "error": result.is_error,
        }),
        _ => json!({"role": "user", "text": text}),
    }
}

fn on_disk(root: &Path, folder: &Path, files: &mut Map<String, Value>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            on_disk(root, &path, files)?;
        } else if path.is_file() {
            // A link to a file counts as a file.
            let name = format!("/{}", path.strip_prefix(root)?.display());
            files.insert(name, Value::String(String::from_utf8_lossy(&std::fs::read(&path)?).into_owned()));
        }
    }
    Ok(())
}
