//! A question to a person, and work that is evaluated before it counts as done.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::middleware::AskUser;
use deepagents::middleware::rubric::{Rubric, RubricState, RubricText};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{Decision, DeepAgent, MemoryJournal, RunInput, Update};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new([
        Turn::call("ask_user", json!({"question": "Which flower?", "choices": ["rose", "violet"]})),
        Turn::text("A violet by a mossy stone."),
        Turn::text("A violet by a mossy stone, half hidden from the eye."),
    ]);
    let missing = json!({"name": "two verses", "passed": false, "gap": "there is one"});
    let judge = ScriptedModel::new([
        Turn::text(json!({"result": "needs_revision", "explanation": "Too short.", "criteria": [missing]}).to_string()),
        Turn::text(
            r#"{"result": "satisfied", "explanation": "Good.", "criteria": [{"name": "two verses", "passed": true}]}"#,
        ),
    ]);
    let agent = DeepAgent::builder()
        .model(model)
        .middleware(AskUser)
        .middleware(Rubric::default().model(judge))
        .journal(MemoryJournal::new())
        .build()?;

    let rubric = Update::new::<RubricText>(Some("The poem has two verses.".into()));
    let waiting = agent.invoke(RunInput::new("Write a poem.").thread("poem").update(rubric)).await?;
    let question = waiting.action_requests().remove(0);
    println!("{}", question.text);
    // Days later, in any process.
    let answer = Decision::Respond { message: "2".into() };
    let outcome = agent.invoke(RunInput::resume("poem").decide(question.id, answer)).await?;
    println!("{}", outcome.text());
    if let Some(progress) = outcome.state.get::<RubricState>() {
        println!("{:?} after {} judgements", progress.status, progress.iterations);
    }
    Ok(())
}
// ANCHOR_END: example
