//! A custom middleware that counts the calls of a run and rejects those beyond a limit.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::core::last_value;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{
    ChannelSpec, Context, DeepAgent, HookOutput, Middleware, Result, ToolNext, ToolRequest, ToolResponse,
};
use serde_json::json;

last_value!(
    /// Number of calls that the run has requested.
    Wanted("wanted_calls"): usize => private
);

/// State of a run belongs in a channel: all runs share the fields.
struct Ceiling {
    limit: usize,
}

impl Middleware for Ceiling {
    fn name(&self) -> &str {
        "Ceiling"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<Wanted>()]
    }

    async fn before_agent(&self, _cx: &Context) -> Result<HookOutput> {
        // A thread keeps its channels across runs.
        Ok(HookOutput::set::<Wanted>(0))
    }

    async fn after_model(&self, cx: &Context) -> Result<HookOutput> {
        let answer = cx.messages().iter().rev().find_map(|message| message.as_assistant());
        let calls = answer.map_or(0, |answer| answer.tool_calls().count());
        Ok(HookOutput::set::<Wanted>(cx.get::<Wanted>() + calls))
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        if request.cx.get::<Wanted>() > self.limit {
            return Ok(ToolResponse::error("Error: no tool calls are left; answer with what you have."));
        }
        next.run(request).await
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let look = || Turn::call("ls", json!({"path": "/"}));
    let model = ScriptedModel::new([
        look(),
        look(),
        Turn::text("One look had to do."),
        look(),
        Turn::text("Another run may look again."),
    ]);
    let agent = DeepAgent::builder().model(model).middleware(Ceiling { limit: 1 }).build()?;
    for task in ["Look around twice.", "Look around."] {
        let outcome = agent.invoke(task).await?;
        for result in outcome.messages().iter().filter_map(|m| m.as_tool()) {
            println!("{}: {}", result.name, if result.is_error { "refused" } else { "ran" });
        }
        println!("{}", outcome.text());
    }
    Ok(())
}
// ANCHOR_END: example
