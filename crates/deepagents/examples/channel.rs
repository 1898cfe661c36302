//! A custom state channel that a tool updates, a hook reads, and sub-agents hand back.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use std::sync::Arc;

use deepagents::core::state::{ChannelError, ChannelSpec, Sharing};
use deepagents::core::tool::DynTool;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{
    Channel, Context, DeepAgent, Message, Middleware, ModelRequest, Result, ToolError, ToolOutput, Update, tool_fn,
};
use serde_json::json;

/// Money spent, in cents. Updates are added, so two calls of one turn do not overwrite each other.
struct Expenses;

impl Channel for Expenses {
    const NAME: &'static str = "spent";
    const SHARING: Sharing<Self::Value, Self::Update> =
        Sharing::shared_by(|given, left| left.checked_sub(*given).filter(|spent| *spent > 0));
    type Value = u64;
    type Update = u64;

    fn reduce(value: &mut u64, update: u64) -> std::result::Result<(), ChannelError> {
        *value += update;
        Ok(())
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Buy {
    /// The price in cents.
    cents: u64,
}

/// Gives the agent a spending limit.
struct Purse {
    limit: u64,
}

impl Middleware for Purse {
    fn name(&self) -> &str {
        "Purse"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<Expenses>()]
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        let limit = self.limit;
        vec![Arc::new(tool_fn("buy", "Buys something.", move |args: Buy, cx| async move {
            if cx.get::<Expenses>() + args.cents > limit {
                return Err(ToolError::denied("There is not enough left."));
            }
            Ok(ToolOutput::text("Bought.").with_update(Update::new::<Expenses>(args.cents)))
        }))]
    }

    async fn modify_request(&self, mut request: ModelRequest, cx: &Context) -> Result<ModelRequest> {
        // At the end of the conversation, so that the change does not invalidate the provider's cached prefix.
        let left = self.limit.saturating_sub(cx.get::<Expenses>());
        request.messages.put(Message::harness(format!("[{left} cents are left]")).into());
        Ok(request)
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new([
        Turn::calls([("buy", json!({"cents": 250})), ("buy", json!({"cents": 300}))]),
        Turn::call("buy", json!({"cents": 600})),
        Turn::text("Two things bought; the third was too dear."),
    ]);
    let agent = DeepAgent::builder().model(model.clone()).middleware(Purse { limit: 1000 }).build()?;
    let outcome = agent.invoke("Go shopping.").await?;
    for request in model.requests() {
        println!("{}", request.messages.last().map(|m| m.text()).unwrap_or_default());
    }
    println!("spent: {:?}; {}", outcome.state.get::<Expenses>(), outcome.text());
    Ok(())
}
// ANCHOR_END: example
