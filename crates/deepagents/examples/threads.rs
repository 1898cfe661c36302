//! Continuing a thread, inspecting it, and rewinding it to an earlier position.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, MemoryJournal, RunInput};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new([
        Turn::text("Noted: by train."),
        Turn::text("Noted: by boat."),
        Turn::text("Noted: on foot."),
    ]);
    // Instead of `MemoryJournal::new()`: `Sqlite::open("threads.db").await?` of the crate `deepagents-persist`.
    let agent = DeepAgent::builder().model(model).journal(MemoryJournal::new()).build()?;
    agent.invoke(RunInput::new("I go by train.").thread("trip")).await?;
    agent.invoke(RunInput::new("No, by boat.").thread("trip")).await?;

    let checkpoints = agent.history("trip", None, 20).await?;
    for checkpoint in &checkpoints {
        let then = agent.state_at("trip", checkpoint.position).await?;
        let said = then.messages().last().map(|m| m.text()).unwrap_or_default();
        println!("{:2} {:?}: {said}", checkpoint.position, checkpoint.origin);
    }
    // Back to when the thread had two messages; the rest stays in the log, on a branch of its own.
    for checkpoint in checkpoints {
        if agent.state_at("trip", checkpoint.position).await?.messages().len() == 2 {
            agent.invoke(RunInput::new("No, on foot.").thread("trip").at(checkpoint.position)).await?;
            break;
        }
    }
    for message in agent.state("trip").await?.messages().iter() {
        println!("{}", message.text());
    }
    Ok(())
}
// ANCHOR_END: example
