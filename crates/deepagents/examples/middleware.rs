//! A middleware of one's own: it counts what tools return and ends a run that has seen too much.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use std::sync::atomic::{AtomicUsize, Ordering};

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Middleware, Result, ToolNext, ToolRequest, ToolResponse};
use serde_json::json;

struct Ceiling {
    left: AtomicUsize,
}

impl Middleware for Ceiling {
    fn name(&self) -> &str {
        "Ceiling"
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_err() {
            return Ok(ToolResponse::error("Error: no tool calls are left; answer with what you have."));
        }
        next.run(request).await
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new([
        Turn::call("ls", json!({"path": "/"})),
        Turn::call("ls", json!({"path": "/"})),
        Turn::text("One look had to do."),
    ]);
    let agent = DeepAgent::builder().model(model).middleware(Ceiling { left: AtomicUsize::new(1) }).build()?;
    let outcome = agent.invoke("Look around twice.").await?;
    for result in outcome.messages().iter().filter_map(|m| m.as_tool()) {
        println!("{}: {}", result.name, if result.is_error { "refused" } else { "ran" });
    }
    println!("{}", outcome.text());
    Ok(())
}
// ANCHOR_END: example
