//! A sub-agent defined in a file, and one defined as data.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::fs::LocalBackend;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::SubAgentSpec;
use deepagents::{DeepAgent, EventKind, MiddlewareEvent};
use futures_util::StreamExt;
use serde_json::json;

const REVIEWER: &str = "\
---
name: reviewer
description: Reads a file and says what is wrong with it.
tools: [read_file, grep]
---
You review texts. Name the line of each mistake.
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir_all(folder.path().join(".deepagents/agents"))?;
    std::fs::write(folder.path().join(".deepagents/agents/reviewer.md"), REVIEWER)?;
    std::fs::write(folder.path().join("letter.txt"), "Deer friend,\n")?;

    let model = ScriptedModel::rules()
        .when(
            |request| request.system_text().contains("You review texts"),
            [Turn::call("read_file", json!({"file_path": "/letter.txt"})), Turn::text("Line 1: Deer.")],
        )
        .when(|request| request.system_text().contains("You are brief"), [Turn::text("A letter.")])
        .otherwise([
            Turn::calls([
                ("task", json!({"subagent_type": "reviewer", "description": "Review /letter.txt."})),
                ("task", json!({"subagent_type": "teller", "description": "What is /letter.txt?"})),
            ]),
            Turn::text("One mistake, in line 1."),
        ])
        .build();
    let teller: SubAgentSpec = serde_json::from_value(json!({
        "name": "teller",
        "description": "Says what a file is.",
        "prompt": "You are brief.",
    }))?;
    let agent = DeepAgent::builder()
        .model(model)
        .backend(LocalBackend::open(folder.path())?)
        .agents_from(["/.deepagents/agents"])
        .sub_agent(teller)
        .build()?;

    let mut run = agent.run("Look at the letter.");
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::Middleware(MiddlewareEvent::SubAgentsLoaded { agents, warnings }) => {
                println!("loaded: {agents:?}, wrong: {warnings:?}");
            }
            EventKind::ToolFinished { name, text, .. } if name == "task" => println!("{text}"),
            _ => {}
        }
    }
    println!("{}", run.outcome().await?.text());
    Ok(())
}
// ANCHOR_END: example
