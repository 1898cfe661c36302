//! Delegation to two concurrent sub-agents: one defined by data, one a closure.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::{SubAgentResult, SubAgentSpec, sub_agent_fn};
use deepagents::{DeepAgent, EventKind};
use futures_util::StreamExt;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::rules()
        .when(
            |request| request.system_text().contains("You find things out"),
            [
                Turn::call("write_file", json!({"file_path": "/notes.md", "content": "Turin lies on the Po.\n"})),
                Turn::text("It lies on the Po; see /notes.md."),
            ],
        )
        .otherwise([
            Turn::calls([
                ("task", json!({"subagent_type": "researcher", "description": "On which river is Turin?"})),
                ("task", json!({"subagent_type": "counter", "description": "Turin"})),
            ]),
            Turn::call("read_file", json!({"file_path": "/notes.md"})),
            Turn::text("Turin has 5 letters and lies on the Po."),
        ])
        .build();
    let researcher = SubAgentSpec::new("researcher", "Finds things out.").system_prompt("You find things out.");
    let counter = sub_agent_fn("counter", "Counts the letters of its task.", |work, _cx| async move {
        Ok(SubAgentResult::text(work.description.chars().count().to_string()))
    });
    let agent =
        DeepAgent::builder().model(model).sub_agent(researcher).sub_agent(counter).general_purpose(false).build()?;

    let mut run = agent.run("What do you know of Turin?");
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::ToolStarted { name, .. } => println!("{:?} {name}", event.path),
            EventKind::AgentFinished { .. } => println!("{:?} finished", event.path),
            _ => {}
        }
    }
    println!("{}", run.outcome().await?.text());
    Ok(())
}
// ANCHOR_END: example
