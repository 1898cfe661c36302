//! Limits on calls, retries, and loop detection.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use std::time::Duration;

use deepagents::middleware::limits::{ToolCallLimit, ToolCallLimitExit};
use deepagents::middleware::loop_detection::{LoopPolicy, LoopThreshold};
use deepagents::middleware::retry::{Backoff, ModelRetry};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, ModelError, json_tool};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let search =
        || json_tool("search", "Searches.", json!({"type": "object"}), |_: Value, _cx| async { Ok("Nothing.") });
    let ask = |n: usize| Turn::call("search", json!({"query": format!("try {n}")}));

    // A transient failure, and then a limit.
    let script = [Turn::error(ModelError::transport("the cable is cut")), ask(1), ask(2), ask(3), ask(4)];
    let retry = ModelRetry::new(Backoff { initial: Duration::from_millis(5), ..Backoff::default() })?;
    let limit = ToolCallLimit::for_tool("search", None, Some(3))?.exit(ToolCallLimitExit::End);
    let builder = DeepAgent::builder().model(ScriptedModel::new(script)).tool(search());
    let outcome = builder.middleware(retry).middleware(limit).build()?.invoke("Find it.").await?;
    println!("{}: {}", outcome.stop.reason(), outcome.text());

    // The same call repeatedly: the model is warned, and then the run is stopped.
    let policy = LoopPolicy { same_calls: Some(LoopThreshold::new(2, 4)?), ..LoopPolicy::default() };
    let model = ScriptedModel::rules().always(ask(1)).build();
    let agent = DeepAgent::builder().model(model).tool(search()).loop_detection(policy).build()?;
    let outcome = agent.invoke("Find it.").await?;
    println!("{}: {}", outcome.stop.reason(), outcome.text());
    Ok(())
}
// ANCHOR_END: example
