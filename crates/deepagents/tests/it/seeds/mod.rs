//! The statements of the project's original documents, one by one; the book has them in a table.

mod below;
mod context;
mod delegation;
mod planning;
mod state;

use std::sync::Arc;

use deepagents::core::tool::DynTool;
use deepagents::{MemoryJournal, ModelRequest, json_tool};
use serde_json::{Value, json};

/// A call of `task`.
fn task(agent: &str, description: &str) -> (&'static str, Value) {
    ("task", json!({"description": description, "subagent_type": agent}))
}

/// Whether the conversation starts with these words of a person or a task.
fn begins(words: &'static str) -> impl Fn(&ModelRequest) -> bool + Send + Sync + 'static {
    move |request| request.messages.get(0).is_some_and(|message| message.text().starts_with(words))
}

fn names(request: &ModelRequest) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// A tool that returns its arguments.
fn echo(name: &str) -> impl DynTool + use<> {
    json_tool(name, "A tool.", json!({"type": "object"}), |args: Value, _cx| async move { Ok(args.to_string()) })
}

fn journal() -> Arc<MemoryJournal> {
    Arc::new(MemoryJournal::new())
}

#[test]
fn every_test_named_in_the_books_table_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = std::fs::read_to_string(root.join("docs/src/seeds.md")).unwrap();
    let named: Vec<(&str, &str)> = table.split('`').filter_map(|word| word.split_once("::")).collect();
    assert!(named.len() > 50, "{}", named.len());
    for (file, test) in named.into_iter().filter(|(file, _)| file.ends_with(".rs")) {
        let source = std::fs::read_to_string(root.join("crates").join(file)).unwrap_or_default();
        assert!(source.contains(&format!("fn {test}(")), "{file} has no test {test}");
    }
}
