//! Permission rules: some files may be read, some changed, and some not be seen at all.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::DeepAgent;
use deepagents::fs::LocalBackend;
use deepagents::fs::permissions::{AccessMode, Operation, Permissions, Rule};
use deepagents::models::scripted::{ScriptedModel, Turn};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("docs"))?;
    std::fs::write(folder.path().join("docs/guide.md"), "Read me.\n")?;
    std::fs::write(folder.path().join(".env"), "KEY=secret\n")?;

    // The first rule that includes the operation and matches the path decides.
    let rules = Permissions::new([
        Rule::new(AccessMode::Deny, ["/.env", "/**/*.pem"]),
        Rule::new(AccessMode::Allow, ["/drafts/**"]),
        Rule::new(AccessMode::Deny, ["/**"]).only([Operation::Write]),
    ])?;
    let model = ScriptedModel::new([
        Turn::calls([
            ("read_file", json!({"file_path": "/docs/guide.md"})),
            ("read_file", json!({"file_path": "/.env"})),
            ("grep", json!({"pattern": "KEY"})),
            ("write_file", json!({"file_path": "/drafts/new.md", "content": "A draft.\n"})),
            ("write_file", json!({"file_path": "/docs/new.md", "content": "Not a draft.\n"})),
        ]),
        Turn::text("I did what I may."),
    ]);
    let agent =
        DeepAgent::builder().model(model).backend(LocalBackend::open(folder.path())?).permissions(rules).build()?;
    let outcome = agent.invoke("Look around and write a draft.").await?;
    for result in outcome.messages().iter().filter(|m| m.as_tool().is_some()) {
        println!("{}", result.text().lines().next().unwrap_or_default());
    }
    Ok(())
}
// ANCHOR_END: example
