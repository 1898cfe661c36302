//! A worker that finds threads with unfinished runs and resumes them.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use std::sync::Arc;
use std::time::Duration;

use deepagents::core::journal::{Claim, Journal, JournalError, Lease, RunStatus, ThreadQuery};
use deepagents::core::tool::tool_fn;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, MemoryJournal, RunInput};
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn agent(journal: Arc<dyn Journal>, turns: Vec<Turn>) -> Result<DeepAgent> {
    let count = tool_fn("count", "Counts the parcels.", |(): (), _cx| async { Ok("14 parcels") });
    Ok(DeepAgent::builder().model(ScriptedModel::new(turns)).journal(journal).tool(count).build()?)
}

/// Resumes every run on which no living process works.
async fn work(agent: &DeepAgent, journal: Arc<dyn Journal>, name: &str) -> Result<()> {
    let open = ThreadQuery::default().status(RunStatus::Open).claimable();
    for thread in journal.threads().list(&open).await? {
        let claim = Claim::new(name, Duration::from_secs(30));
        let lease = match Lease::claim(journal.clone(), thread.id.clone(), claim).await {
            Ok(lease) => lease,
            Err(JournalError::Busy { owner, .. }) => {
                println!("{} belongs to {owner}", thread.id);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        // Prepare what the thread needs here: nobody else works on it. The run continues with the same lease.
        let outcome = agent.invoke(RunInput::resume(thread.id.clone()).owned(lease)).await?;
        println!("{name} has finished {}: {}", thread.id, outcome.text());
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    // Instead of this: a database shared by several processes, of the crate `deepagents-persist`.
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let first = agent(journal.clone(), vec![Turn::call("count", json!({})), Turn::text("never asked")])?;
    for thread in ["monday", "tuesday"] {
        // A process that is about to exit leaves its runs where they are; this one has not even started.
        let run = first.run(RunInput::new("How many parcels?").thread(thread)).detach();
        run.suspend();
        println!("{thread} is left: {:?}", run.outcome().await?.stop);
    }
    let second = agent(
        journal.clone(),
        vec![
            Turn::call("count", json!({})),
            Turn::text("14."),
            Turn::call("count", json!({})),
            Turn::text("14 again."),
        ],
    )?;
    let other = Lease::claim(journal.clone(), "tuesday", Claim::new("worker-2", Duration::from_secs(30))).await?;
    work(&second, journal.clone(), "worker-1").await?;
    other.release().await?;
    work(&second, journal, "worker-1").await
}
// ANCHOR_END: example
