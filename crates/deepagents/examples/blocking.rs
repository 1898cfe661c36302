//! Use without an async runtime, on the files of a directory.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::DeepAgent;
use deepagents::blocking::BlockingAgent;
use deepagents::fs::LocalBackend;
use deepagents::models::scripted::{ScriptedModel, Turn};
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("todo.txt"), "water the plants\n")?;
    let model = ScriptedModel::new([
        Turn::call("read_file", json!({"file_path": "/todo.txt"})),
        Turn::call("edit_file", json!({"file_path": "/todo.txt", "old_string": "water", "new_string": "[done] water"})),
        Turn::text("Ticked off."),
    ]);
    let agent = DeepAgent::builder().model(model).backend(LocalBackend::open(folder.path())?).build()?;
    let outcome = BlockingAgent::new(agent)?.invoke("Tick off the plants.")?;
    println!("{}\n{}", outcome.text(), std::fs::read_to_string(folder.path().join("todo.txt"))?);
    Ok(())
}
// ANCHOR_END: example
