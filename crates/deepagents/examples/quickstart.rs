//! An agent in twenty lines, with a scripted model so that it runs without a key.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, tool_fn};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Weather {
    /// Name of the city.
    city: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // With a key: `Registry::new().configure("anthropic", config).model("anthropic:claude-sonnet-4-5")?`.
    let model = ScriptedModel::new([
        Turn::call("get_weather", json!({"city": "Turin"})),
        Turn::call("write_file", json!({"file_path": "/weather.md", "content": "Turin: sunny\n"})),
        Turn::text("It is sunny in Turin; I noted it in /weather.md."),
    ]);
    let weather = tool_fn("get_weather", "Tells the weather of a city.", |args: Weather, _cx| async move {
        Ok(format!("It is sunny in {}.", args.city))
    });
    let agent = DeepAgent::builder().model(model).tool(weather).build()?;
    let outcome = agent.invoke("How is the weather in Turin? Take a note.").await?;
    println!("{}", outcome.text());
    Ok(())
}
// ANCHOR_END: example
