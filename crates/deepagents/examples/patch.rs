//! Changing files with a patch.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::middleware::filesystem::EditTool;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::profile::ProfileConfig;
use deepagents::{DeepAgent, RunInput};
use serde_json::json;

const PATCH: &str = "*** Begin Patch
*** Update File: /greet.rs
@@ fn main() {
-    println!(\"Hello\");
+    println!(\"Hello, world\");
*** Add File: /README.md
+Says hello.
*** End Patch";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = json!({"file_path": "/greet.rs", "content": "fn main() {\n    println!(\"Hello\");\n}\n"});
    let script = [
        Turn::call("write_file", file),
        Turn::call("apply_patch", json!({ "input": PATCH })),
        Turn::call("read_file", json!({"file_path": "/greet.rs"})),
        Turn::text("Done."),
    ];
    // `FilesystemOptions::edit_tool` does the same for one agent, whatever its model.
    let profile = ProfileConfig { edit_tool: Some(EditTool::ApplyPatch), ..ProfileConfig::default() };
    let agent = DeepAgent::builder().model(ScriptedModel::new(script)).profile(profile).build()?;
    let outcome = agent.invoke(RunInput::new("Greet the world.")).await?;
    for result in outcome.messages().iter().filter(|message| message.as_tool().is_some()) {
        println!("{}\n", result.text());
    }
    Ok(())
}
// ANCHOR_END: example
