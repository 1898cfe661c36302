//! Compaction of a long conversation: old messages move to a file, and the model sees a summary of them.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::middleware::summarization::{SummarizationOptions, Trigger};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, EventKind, MemoryJournal, MiddlewareEvent, RunInput};
use futures_util::StreamExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new((1..=6).map(|n| Turn::text(format!("Noted, that is number {n}."))));
    let summaries =
        ScriptedModel::new([Turn::text("## Goal\nKeep a list.\n\n## Decisions\nNumbers 1 to 3 are noted.")]);
    let options = SummarizationOptions::default().trigger(Trigger::messages(8)).messages_to_keep(3).model(summaries);
    let agent =
        DeepAgent::builder().model(model.clone()).summarization(options).journal(MemoryJournal::new()).build()?;

    for n in 1..=6 {
        let mut run = agent.run(RunInput::new(format!("Note this: item {n}.")).thread("list"));
        while let Some(event) = run.next().await {
            if let EventKind::Middleware(MiddlewareEvent::ConversationCompacted { evicted, .. }) = event.kind {
                println!("a summary stands for {evicted} messages");
            }
        }
        let outcome = run.outcome().await?;
        let sent = model.requests().last().map_or(0, |request| request.messages.len());
        println!("messages in the thread: {:2}, sent to the model: {sent}", outcome.messages().len());
    }
    Ok(())
}
// ANCHOR_END: example
