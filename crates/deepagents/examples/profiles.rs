//! Adjustments for one model: an extra prompt and an excluded tool.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::DeepAgent;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::profile::{ProfileConfig, Profiles};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // As data, this could be in a file of the application.
    let careful: ProfileConfig = serde_json::from_value(serde_json::json!({
        "system_prompt_suffix": "Answer in one sentence.",
        "excluded_tools": ["delete"],
    }))?;
    let mut profiles = Profiles::builtin();
    profiles.register("local:small", careful)?;

    let model = ScriptedModel::new([Turn::text("Yes.")]).with_name("local:small");
    let agent = DeepAgent::builder().model(model.clone()).profiles(profiles).build()?;
    agent.invoke("Is it late?").await?;
    if let Some(request) = model.requests().first() {
        println!("{}", request.system_text().contains("Answer in one sentence."));
        println!("{}", request.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>().join(" "));
    }
    println!("{}", agent.explain());
    Ok(())
}
// ANCHOR_END: example
