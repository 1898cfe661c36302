//! A call that waits for a person's approval and continues after the answer.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{
    Decision, DecisionKind, DeepAgent, FinishReason, InterruptOn, InterruptPolicy, MemoryJournal, RunInput, tool_fn,
};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Mail {
    to: String,
    text: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new([
        Turn::calls([
            ("send", json!({"to": "ada@example.org", "text": "See you at 8."})),
            ("send", json!({"to": "everyone@example.org", "text": "See you at 8."})),
        ]),
        Turn::text("Ada knows; the others were not told."),
    ]);
    let send = tool_fn("send", "Sends a message.", |mail: Mail, _cx| async move {
        Ok(format!("Sent to {}: {}", mail.to, mail.text))
    });
    let ask = InterruptOn::only([DecisionKind::Approve, DecisionKind::Edit, DecisionKind::Reject])
        .describe(|call, _cx| format!("Send this? {}", call.args));
    let agent = DeepAgent::builder()
        .model(model)
        .tool(send)
        .interrupt_on(InterruptPolicy::new().before("send", ask))
        .journal(MemoryJournal::new())
        .build()?;

    let outcome = agent.invoke(RunInput::new("Tell Ada to come at 8.").thread("dinner")).await?;
    assert_eq!(outcome.stop, FinishReason::Interrupted);
    // Nothing runs now. The questions are stored with the thread: another process can answer them days later.
    let mut input = RunInput::resume("dinner");
    for question in outcome.action_requests() {
        println!("? {}", question.text);
        let decision = if question.args.get("to").is_some_and(|to| to == "ada@example.org") {
            Decision::Approve
        } else {
            Decision::Reject { message: Some("Ada alone was meant.".into()) }
        };
        input = input.decide(question.id, decision);
    }
    let outcome = agent.invoke(input).await?;
    for result in outcome.messages().iter().filter_map(|m| m.as_tool()) {
        println!("{}: {}", result.name, if result.is_error { "not sent" } else { "sent" });
    }
    println!("{}", outcome.text());
    Ok(())
}
// ANCHOR_END: example
