//! A structured answer, typed in Rust.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, ResponseFormat};
use serde_json::json;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Person {
    name: String,
    age: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The first answer is invalid and is sent back with the error.
    let model = ScriptedModel::new([
        Turn::call("Person", json!({"name": "Ada"})),
        Turn::call("Person", json!({"name": "Ada", "age": 36})),
    ]);
    let agent = DeepAgent::builder().model(model).response_format(ResponseFormat::for_type::<Person>()).build()?;
    let outcome = agent.invoke("Extract: Ada, 36.").await?;
    let person: Person = outcome.structured()?;
    println!("{} is {}", person.name, person.age);
    Ok(())
}
// ANCHOR_END: example
