//! Redaction of personal data and secrets before they are stored, sent or shown.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::middleware::redaction::{Detector, HashKey, Redaction, Strategy};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, EventKind};
use futures_util::StreamExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let redaction = Redaction::secrets()
        .hide(Detector::Email)
        .with(Detector::CreditCard, Strategy::Mask)
        .with(Detector::Ip, Strategy::Hash(HashKey::new("a key of thirty-two random bytes")))
        .named("ticket", Detector::pattern(r"\bTCK-\d+\b")?, Strategy::Redact);
    let answer = "Ann (ann@example.org) paid TCK-7 with 4111 1111 1111 1111 from 10.0.0.7.";
    let model = ScriptedModel::new([Turn::text(answer)]);
    let agent = DeepAgent::builder().model(model.clone()).redaction(redaction).build()?;

    let mut run = agent.run("My key is sk-proj-abcdefghijklmnop1234.");
    while let Some(event) = run.next().await {
        if let EventKind::TextDelta { text, .. } = &event.kind {
            print!("{text}");
        }
    }
    println!();
    let outcome = run.outcome().await?;
    for message in outcome.messages().iter() {
        println!("stored: {}", message.text());
    }
    Ok(())
}
// ANCHOR_END: example
