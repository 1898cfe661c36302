//! Commands in the sandbox; without one, the agent is told so and nothing runs.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::DeepAgent;
use deepagents::fs::LocalBackend;
use deepagents::fs::sandbox::{self, Sandbox, SandboxPolicy};
use deepagents::fs::shell::{Confinement, LocalShell, WithShell};
use deepagents::models::scripted::{ScriptedModel, Turn};
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Must come first: the program is its own sandbox helper.
    sandbox::init();
    println!("{}", Sandbox::new().probe());
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("numbers.txt"), "3\n1\n2\n")?;
    let files = LocalBackend::open(folder.path())?;
    let policy = SandboxPolicy::default();
    let shell = LocalShell::open(files.host_path(), Confinement::Sandboxed(policy))?;
    let model = ScriptedModel::new([
        Turn::call("execute", json!({"command": "sort numbers.txt | tr '\\n' ' '; ls /home 2>&1 | head -1"})),
        Turn::text("Sorted, if there was a sandbox to do it in."),
    ]);
    let agent = DeepAgent::builder().model(model).backend(WithShell::new(files, shell)).build()?;
    let outcome = agent.invoke("Sort the numbers.").await?;
    for result in outcome.messages().iter().filter(|m| m.as_tool().is_some()) {
        println!("{}", result.text());
    }
    println!("{}", outcome.text());
    Ok(())
}
// ANCHOR_END: example
