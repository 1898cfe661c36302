//! Events as they happen, a message to the model on the way, and a thread that is gone on with.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, EventKind, MemoryJournal, ModelRequest, RunInput, Subscribe};
use futures_util::StreamExt;
use futures_util::future::ready;
use serde_json::json;

/// Whether the last message of a request is this one.
fn asks(request: &ModelRequest, text: &str) -> bool {
    request.messages.last().is_some_and(|message| message.text() == text)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let write = Turn::call("write_file", json!({"file_path": "/plan.md", "content": "1. rest\n"}));
    // What is said on the way may come before or after the second answer, so that answer is there for both.
    let model = ScriptedModel::rules()
        .when(|request| request.messages.len() == 1, [write])
        .when(|request| asks(request, "What did I ask for?"), [Turn::text("You asked for a plan; it says: rest.")])
        .always(Turn::text("A plan is written, and nothing is before noon."))
        .build();
    let agent = DeepAgent::builder().model(model).journal(MemoryJournal::new()).build()?;

    let mut run = agent.run(RunInput::new("Write a plan.").thread("holiday"));
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::TextDelta { text, .. } => print!("{text}"),
            EventKind::ToolStarted { name, .. } => {
                println!("[{name}]");
                // Joins the conversation before the model is asked again, or at the latest when it has answered.
                run.steer("Nothing before noon, please.");
            }
            EventKind::RunFinished { usage, .. } => println!("\n({} tokens)", usage.total()),
            _ => {}
        }
    }
    run.outcome().await?;

    // A host holds a run without owning it; it goes on although nobody reads.
    let held = agent.run(RunInput::new("What did I ask for?").thread("holiday")).detach();
    let outcome = held.outcome().await?;
    println!("{} ({} messages)", outcome.text(), outcome.messages().len());
    let seen: Vec<_> = held.subscribe(Subscribe::Start).filter(|e| ready(e.kind.is_durable())).collect().await;
    println!("{} durable events, also for those who come late", seen.len());
    Ok(())
}
// ANCHOR_END: example
