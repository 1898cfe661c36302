//! Commands that run before and after tool calls.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

use std::sync::Arc;

use deepagents::DeepAgent;
use deepagents::fs::shell::{Confinement, LocalShell};
use deepagents::middleware::hooks::{HookRunner, Hooks};
use deepagents::models::scripted::{ScriptedModel, Turn};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let write = |path: &str| Turn::call("write_file", json!({"file_path": path, "content": "Hello."}));
    let model = ScriptedModel::new([write("/notes.md"), write("/secrets.md"), Turn::text("One of two is written.")]);
    // ANCHOR: example
    let file = json!({"hooks": {"PreToolUse": [{
        "matcher": "Write",
        "hooks": [{"type": "command", "command": "if grep -q secrets; then echo 'not that one' >&2; exit 2; fi", "failClosed": true}],
    }]}});
    let shell = Arc::new(LocalShell::open(std::env::temp_dir(), Confinement::Unconfined)?);
    let hooks = HookRunner::new(Hooks::parse(&file.to_string(), "hooks.json", shell)?);
    let agent = DeepAgent::builder().model(model).hooks(hooks).build()?;
    let outcome = agent.invoke("Write both.").await?;
    // ANCHOR_END: example
    for result in outcome.messages().iter().filter_map(|message| message.as_tool()) {
        let mark = if result.is_error { "✗" } else { "✓" };
        println!("{mark} {}", result.content.iter().filter_map(|block| block.as_text()).collect::<String>());
    }
    println!("{}", outcome.text());
    Ok(())
}
