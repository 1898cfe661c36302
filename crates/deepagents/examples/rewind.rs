//! A rewind of a thread together with the files that it changed.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::fs::{LocalBackend, LocalOptions, OnConflict, UndoStore};
use deepagents::middleware::filesystem::FilesystemOptions;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::rewind::Rewind;
use deepagents::{DeepAgent, MemoryJournal, RunInput};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (folder, beside) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let plan = folder.path().join("plan.md");
    let write = |text: &str| Turn::call("write_file", json!({"file_path": "/plan.md", "content": text}));
    let model = ScriptedModel::new([write("By train."), Turn::text("Done."), write("By boat."), Turn::text("Done.")]);

    let undo = UndoStore::at(beside.path().join("undo.db"));
    let files = LocalBackend::open_with(folder.path(), LocalOptions { undo: Some(undo), ..LocalOptions::default() })?;
    let agent = DeepAgent::builder()
        .model(model)
        .backend(files.clone())
        .files(FilesystemOptions { read_before_edit: false, ..FilesystemOptions::default() })
        .journal(MemoryJournal::new())
        .build()?;
    agent.invoke(RunInput::new("Plan the trip.").thread("trip")).await?;
    let checkpoint = agent.history("trip", None, 1).await?.remove(0).position;
    agent.invoke(RunInput::new("No, by boat.").thread("trip")).await?;
    println!("{}", std::fs::read_to_string(&plan)?);

    let back = Rewind::new(&agent, &files, "trip", checkpoint);
    // Shows what would happen to each file; nothing is changed yet.
    let wanted = back.plan().await?;
    for change in &wanted.changes {
        println!("{} goes back", change.path);
    }
    // Files changed by somebody else would be conflicts, and the rewind would be refused.
    let done = back.apply(&wanted, OnConflict::Refuse).await?;
    println!("{}", std::fs::read_to_string(&plan)?);

    let undo = Rewind::new(&agent, &files, "trip", done.left);
    undo.apply(&undo.plan().await?, OnConflict::Refuse).await?;
    println!("{}", std::fs::read_to_string(&plan)?);
    Ok(())
}
// ANCHOR_END: example
