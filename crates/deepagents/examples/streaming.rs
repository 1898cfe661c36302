//! Streaming events, a message to the model during a run, and a thread that is continued.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, EventKind, MemoryJournal, ModelRequest, RunInput, Subscribe};
use futures_util::StreamExt;
use futures_util::future::ready;
use serde_json::json;

/// Returns `true` if the last message of a request is this one.
fn asks(request: &ModelRequest, text: &str) -> bool {
    request.messages.last().is_some_and(|message| message.text() == text)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let write = Turn::call("write_file", json!({"file_path": "/plan.md", "content": "1. rest\n"}));
    // The steering message may arrive before or after the second answer, so the script has that answer for both.
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
                // Joins the conversation before the next model call, or at the latest after the current answer.
                run.steer("Nothing before noon, please.");
            }
            EventKind::RunFinished { usage, .. } => println!("\n({} tokens)", usage.total()),
            _ => {}
        }
    }
    run.outcome().await?;

    // A host holds a detached run without owning it; the run continues even if nobody reads its events.
    let held = agent.run(RunInput::new("What did I ask for?").thread("holiday")).detach();
    let outcome = held.outcome().await?;
    println!("{} ({} messages)", outcome.text(), outcome.messages().len());
    let seen: Vec<_> = held.subscribe(Subscribe::Start).filter(|e| ready(e.kind.is_durable())).collect().await;
    println!("{} durable events, also for those who come late", seen.len());
    Ok(())
}
// ANCHOR_END: example
