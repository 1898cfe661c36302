//! Notes that are included in every request, and instructions that are read when needed.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::DeepAgent;
use deepagents::fs::LocalBackend;
use deepagents::models::scripted::{ScriptedModel, Turn};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("AGENTS.md"), "Dates are written as 2026-05-01. <!-- not for the model -->\n")?;
    std::fs::create_dir_all(folder.path().join("skills/minutes"))?;
    std::fs::write(
        folder.path().join("skills/minutes/SKILL.md"),
        "---\nname: minutes\ndescription: How to write the minutes of a meeting\n---\nDecisions first, then who was there.\n",
    )?;

    let model = ScriptedModel::new([
        Turn::call("read_file", json!({"file_path": "/skills/minutes/SKILL.md"})),
        Turn::text("I know how to do it now."),
    ]);
    let agent = DeepAgent::builder()
        .model(model.clone())
        .backend(LocalBackend::open(folder.path())?)
        .memory(["/AGENTS.md"])
        .skills(["/skills"])
        .build()?;
    let outcome = agent.invoke("Write the minutes.").await?;

    let system = model.requests().first().map(|request| request.system_text()).unwrap_or_default();
    for line in system.lines().filter(|line| line.contains("2026-05-01") || line.contains("minutes")) {
        println!("system prompt: {line}");
    }
    for result in outcome.messages().iter().filter(|m| m.as_tool().is_some()) {
        println!("skill: {}", result.text().lines().last().unwrap_or_default().trim());
    }
    println!("{}", outcome.text());
    Ok(())
}
// ANCHOR_END: example
