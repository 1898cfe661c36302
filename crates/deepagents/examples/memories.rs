//! Files of the thread, except those below one directory, which are in a store and outlive it.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

// ANCHOR: example
use std::sync::Arc;

use deepagents::DeepAgent;
use deepagents::core::store::MemoryStore;
use deepagents::fs::{CompositeBackend, StateBackend, StoreBackend, VPath};
use deepagents::models::scripted::{ScriptedModel, Turn};
use serde_json::json;

fn agent(store: &Arc<MemoryStore>, model: ScriptedModel) -> Result<DeepAgent, Box<dyn std::error::Error>> {
    let memories = StoreBackend::new(store.clone(), vec!["ada".to_owned(), "memories".to_owned()]);
    let files = CompositeBackend::new(StateBackend::new()).route(VPath::parse("/memories")?, memories);
    Ok(DeepAgent::builder().model(model).backend(files).memory(["/memories/AGENTS.md"]).build()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(MemoryStore::default());
    let note = json!({"file_path": "/memories/AGENTS.md", "content": "Ada prefers short answers.\n"});
    let model = ScriptedModel::new([Turn::call("write_file", note), Turn::text("I shall remember that.")]);
    println!("{}", agent(&store, model)?.invoke("I prefer short answers.").await?.text());

    // Another thread has other files, and the same memories.
    let model = ScriptedModel::new([Turn::text("Yes.")]);
    println!("{}", agent(&store, model.clone())?.invoke("Is Turin on the Po?").await?.text());
    let system = model.requests().first().map(|request| request.system_text()).unwrap_or_default();
    for line in system.lines().filter(|line| line.contains("Ada")) {
        println!("system prompt: {line}");
    }
    Ok(())
}
// ANCHOR_END: example
