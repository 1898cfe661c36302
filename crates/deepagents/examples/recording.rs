//! A whole run, recorded once and replayed without its model and tools.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::recording::{RunRecorder, RunRecording, Tools};
use deepagents::{ChatModel, DeepAgent, RunInput, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

/// The agent, as the application builds it.
fn agent(model: impl ChatModel, system: &str) -> Result<DeepAgent, Box<dyn std::error::Error>> {
    let weather = tool_fn("weather", "Says what the weather is.", |args: City, _cx| async move {
        println!("(asking for the weather in {})", args.city);
        Ok("18 degrees, light rain")
    });
    Ok(DeepAgent::builder().model(model).system_prompt(system).tool(weather).build()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("weather.jsonl");
    // Stands for a real model, such as one from a `Registry`.
    let real = ScriptedModel::new([Turn::call("weather", json!({"city": "Oslo"})), Turn::text("Take an umbrella.")]);

    let recorder = RunRecorder::create(&file).await?;
    let input = RunInput::new("What do I need in Oslo?").observer(recorder.clone());
    agent(real, "You advise travellers.")?.invoke(input).await?;
    recorder.finish().await?;

    // Replayed: no model or tool is called; everything else works as usual.
    let recording = RunRecording::open(&file).await?;
    let again = agent(recording.model(), "You advise travellers.")?;
    let replayed = recording.clone().replay(Tools::Recorded).run(&again).await?;
    println!("{}", replayed.text().unwrap_or_default());

    // An agent that has changed since diverges from the recording.
    let changed = agent(recording.model(), "You advise sailors.")?;
    if let Err(divergence) = recording.replay(Tools::Recorded).run(&changed).await {
        println!("{divergence}");
    }
    Ok(())
}
// ANCHOR_END: example
